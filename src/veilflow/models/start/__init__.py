"""Where a flow starts: releases that are cheap and say much, paid for before training."""
