//! Counting filters compared with a multiset.

mod oracle;
