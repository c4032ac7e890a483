//! The fuzz targets. Their code is in src/, a module of tests/support, which the tests share.

pub use everbloom_test_support::fuzz::run;
