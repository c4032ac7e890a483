//! LANGUAGE: what each `BF.*` command means. Arguments in, replies and effects out; never a raw key.
#![forbid(unsafe_code)]
