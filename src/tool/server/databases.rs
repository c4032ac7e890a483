//! The databases of a server, and the option that handles all of them.

use std::collections::BTreeMap;

use super::{CallError, Router, Site, text};
use crate::failure::Failure;
use crate::output::counted;

/// Returns the numbers of the databases that have keys, with the numbers of their keys, which are summed over the nodes.
fn databases(router: &mut Router) -> Result<BTreeMap<i64, u64>, Failure> {
    let mut databases = BTreeMap::new();
    router.each(|connection| {
        let info = text(&connection.call(&[b"INFO", b"keyspace"])?);
        let info = info.ok_or_else(|| CallError::unexpected_reply("INFO"))?;
        for (database, keys) in info.lines().filter_map(keys_of_database) {
            let sum: &mut u64 = databases.entry(database).or_default();
            *sum = sum.saturating_add(keys);
        }
        Ok(())
    })?;
    Ok(databases)
}

/// Returns the number and the keys of a database from a line of INFO, such as `db0:keys=2,expires=0,avg_ttl=0`.
fn keys_of_database(line: &str) -> Option<(i64, u64)> {
    let (number, facts) = line.strip_prefix("db")?.split_once(':')?;
    let keys = facts.split(',').find_map(|fact| fact.strip_prefix("keys="))?;
    Some((number.parse().ok()?, keys.parse().ok()?))
}

/// The option with which a command handles all databases.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct DatabaseArguments {
    /// Handle the keys of all databases. Without it, only those of the database in the address, 0 by default
    #[arg(long)]
    pub(crate) all_databases: bool,
}

impl DatabaseArguments {
    /// Returns an error if all databases are wanted and an address names one.
    pub(crate) fn check(self, sites: &[&Site]) -> Result<(), Failure> {
        if self.all_databases && sites.iter().any(|site| site.database() != 0) {
            return Err(Failure::usage("--all-databases needs an address without the number of a database"));
        }
        Ok(())
    }

    /// Returns the numbers of the databases to handle, and of the others that have keys, with their keys.
    pub(crate) fn choose(self, router: &mut Router) -> Result<(Vec<i64>, BTreeMap<i64, u64>), Failure> {
        let mut others = databases(router)?;
        if self.all_databases {
            return Ok((others.into_keys().collect(), BTreeMap::new()));
        }
        let own = router.site.database();
        others.remove(&own);
        Ok((vec![own], others))
    }
}

/// Returns a line that names databases with keys that a command has not handled; empty if there are none.
pub(crate) fn other_databases(others: &BTreeMap<i64, u64>) -> String {
    let named = |(database, keys): (&i64, &u64)| format!("{database} ({})", counted(*keys, "key"));
    let named: Vec<String> = others.iter().map(named).collect();
    if named.is_empty() {
        String::new()
    } else {
        format!("not looked at: database {}; use --all-databases\n", named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_info_have_a_number_and_keys() {
        assert_eq!(keys_of_database("db0:keys=2,expires=0,avg_ttl=0"), Some((0, 2)));
        assert_eq!(
            keys_of_database("db15:keys=123456789,expires=1,avg_ttl=0,subexpiry=0\r"),
            Some((15, 123_456_789))
        );
        for other in ["", "# Keyspace", "db", "db1", "db1:", "db1:expires=0", "dbx:keys=1", "db1:keys=many"] {
            assert_eq!(keys_of_database(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_names_the_other_databases() {
        assert_eq!(other_databases(&BTreeMap::new()), "");
        assert_eq!(
            other_databases(&BTreeMap::from([(1, 1), (12, 30)])),
            "not looked at: database 1 (1 key), 12 (30 keys); use --all-databases\n"
        );
    }
}
