"""Images: an autoencoder and a flow over its codes, trained together."""
