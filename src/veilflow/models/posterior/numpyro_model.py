"""A NumPyro model of one record, split into its prior and the likelihood of a record."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class NumpyroModel:
    """A NumPyro model as `vf.FlowPosterior` takes it.

    The model describes one record: every latent site is a parameter that all records share, and all
    other sites are observed. Bounded parameters are mapped to unbounded ones, as NumPyro does;
    `constrained` maps draws back.

    Args:
        model: A function of one record that calls NumPyro's primitives.
        example: A made-up record of the right shapes; its numbers are not used.

    Raises:
        ImportError: NumPyro is not installed.
        ValueError: The model has no parameter, observes nothing, or has sites that are scaled,
            discrete or enumerated.
    """

    def __init__(self, model: Callable[..., Any], example: Any):
        try:
            from numpyro import handlers
            from numpyro.distributions.transforms import biject_to
        except ImportError as error:
            raise ImportError(
                "a NumPyro model needs NumPyro: pip install 'veilflow[posterior]'."
            ) from error
        self._model, self._handlers, self._example = model, handlers, example
        self.__wrapped__ = model  # `code_hash` looks here
        sites = self._sites(example, None)
        latent = {name: site for name, site in sites.items() if not site["is_observed"]}
        if not latent or len(latent) == len(sites):
            raise ValueError("the model must have a site that is sampled and one that is observed.")
        for name, site in sites.items():
            if site.get("scale") is not None or site["cond_indep_stack"]:
                raise ValueError(
                    f"site {name!r} is in a plate or scaled. Write the model of one record, without "
                    "plates: the records are the plate."
                )
        for name, site in latent.items():
            if site["fn"].is_discrete:
                raise ValueError(f"site {name!r} is discrete: it has no gradient.")
        self._transforms = {name: biject_to(site["fn"].support) for name, site in latent.items()}
        self._shapes = {
            name: jnp.shape(self._transforms[name].inv(site["value"]))
            for name, site in latent.items()
        }

    @property
    def parameters(self) -> tuple[str, ...]:
        """One name per number: that of its site, with an index where the site has several."""
        names = []
        for name, shape in self._shapes.items():
            places = [""] if shape == () else [str(list(i)) for i in np.ndindex(*shape)]
            names += [name + place.replace(" ", "") for place in places]
        return tuple(names)

    @cached_property
    def log_likelihood(self) -> Callable[[Array, Any], Array]:
        """The log-likelihood of one record, as a function of unbounded parameters."""

        def log_likelihood(theta: Float[Array, " dim"], record: Any) -> Float[Array, ""]:
            sites = self._sites(record, self._values(theta)[0])
            return _total(site for site in sites.values() if site["is_observed"])

        return log_likelihood

    @cached_property
    def log_prior(self) -> Callable[[Array], Array]:
        """The log-prior of unbounded parameters."""

        def log_prior(theta: Float[Array, " dim"]) -> Float[Array, ""]:
            values, log_det = self._values(theta)
            sites = self._sites(None, values)
            return log_det + _total(site for name, site in sites.items() if name in self._shapes)

        return log_prior

    def constrained(self, thetas: Float[np.ndarray, "draws dim"]) -> dict[str, np.ndarray]:
        """Draws by the name of their site, within its bounds.

        Args:
            thetas: From `sample` of a fitted posterior.
        """
        values = jax.vmap(lambda theta: self._values(theta)[0])(jnp.asarray(thetas))
        return {name: np.asarray(value) for name, value in values.items()}

    def _values(self, theta: Array) -> tuple[dict[str, Array], Array]:
        """Values by site, and the log-determinant of the map from `theta` to them."""
        values, total, start = {}, jnp.zeros(()), 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape, dtype=int))
            free = theta[start : start + size].reshape(shape)
            start += size
            transform = self._transforms[name]
            values[name] = transform(free)
            total = total + jnp.sum(transform.log_abs_det_jacobian(free, values[name]))
        return values, total

    def _sites(self, record: Any, values: dict[str, Array] | None) -> dict[str, Any]:
        handlers = self._handlers
        model = handlers.seed(self._model, 0)
        if values is not None:
            model = handlers.substitute(model, data=values)
        record = self._example if record is None else record
        traced = handlers.trace(model).get_trace(record)
        return {name: site for name, site in traced.items() if site["type"] == "sample"}


def _total(sites: Any) -> Array:
    parts = [jnp.sum(site["fn"].log_prob(site["value"])) for site in sites]
    return jnp.sum(jnp.stack(parts))
