//! Filters that items can be deleted from, against a multiset.

mod oracle;
