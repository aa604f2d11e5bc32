//! Exact denoisers, enumeration oracles and the laws every implementation must pass.
