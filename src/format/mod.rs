//! BYTES: how a filter is written down and read back. Imports [`bloom`](crate::bloom), knows no server.
#![forbid(unsafe_code)]
