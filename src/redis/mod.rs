//! HOST: the only code that knows the module API, and the only unsafe code.
