//! The cells: every measured number by itself, as docs/performance-cells.csv keeps them. The page and its pictures are
//! made from them alone.

use super::failure::Failure;

/// One measured number, or a text that says where the numbers of a part come from.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Row {
    /// What it is part of: a size of filter, or another section of the page.
    pub(crate) part: String,
    /// What was done or counted.
    pub(crate) what: String,
    /// Items per command, where it is about commands.
    pub(crate) per_command: Option<usize>,
    /// Kind of filter, where there are several.
    pub(crate) kind: String,
    /// Which quantity.
    pub(crate) quantity: String,
    /// Its value: the median of the rounds where there were several.
    pub(crate) value: String,
    /// The median distance from that.
    pub(crate) deviation: Option<f64>,
    /// Unit of both and of the aim.
    pub(crate) unit: String,
    /// What was aimed at, where something was.
    pub(crate) at_most: Option<f64>,
}

impl Row {
    /// The value as a number.
    pub(crate) fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    fn has_place_of(&self, other: &Self) -> bool {
        let place = |row: &Self| {
            [&row.part, &row.what, &row.kind, &row.quantity]
                .map(String::clone)
                .map(|name| (name, row.per_command))
        };
        place(self) == place(other)
    }
}

/// Part of the rows that say where and how a part was measured; `what` is that part.
pub(crate) const MACHINE: &str = "machine";

/// All cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record(Vec<Row>);

impl Record {
    /// Reads the file's text.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        Ok(Self(reader.deserialize().collect::<Result<_, _>>()?))
    }

    /// The file's text.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        self.0.iter().try_for_each(|row| writer.serialize(row))?;
        Ok(String::from_utf8(writer.into_inner().map_err(|error| error.to_string())?)?)
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Row) {
        self.0.push(row);
    }

    /// Sets the rows of `newer` in the places of those here, and after them where there are none.
    pub(crate) fn overwrite(&mut self, newer: Self) {
        for row in newer.0 {
            match self.0.iter_mut().find(|old| old.has_place_of(&row)) {
                Some(old) => *old = row,
                None => self.0.push(row),
            }
        }
    }

    /// The rows of a part.
    pub(crate) fn part(&self, part: &str) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.part == part)
    }

    /// One cell.
    pub(crate) fn cell(
        &self,
        part: &str,
        what: &str,
        per_command: Option<usize>,
        kind: &str,
        quantity: &str,
    ) -> Option<&Row> {
        self.part(part).find(|row| {
            row.what == what && row.per_command == per_command && row.kind == kind && row.quantity == quantity
        })
    }

    /// Different values of a column in a part, in order.
    pub(crate) fn distinct(&self, part: &str, column: fn(&Row) -> &str) -> Vec<&str> {
        let mut values = Vec::new();
        for value in self.part(part).map(column) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_record_is_read_as_it_was_written_and_a_newer_one_replaces_what_it_measured() {
        use super::*;
        let row = |what: &str, value: &str| Row {
            part: "1 GB".to_owned(),
            what: what.to_owned(),
            per_command: Some(100),
            value: value.to_owned(),
            deviation: Some(0.5),
            ..Row::default()
        };
        let old = Record(vec![row("add, new", "7"), row("a \"b\"\nc", "8.25")]);
        assert_eq!(Record::parse(&old.text().unwrap()).unwrap(), old);
        let mut merged = old.clone();
        let other = Row { per_command: Some(1), ..row("add, new", "11") };
        merged.overwrite(Record(vec![row("add, new", "9"), other.clone()]));
        assert_eq!(merged, Record(vec![row("add, new", "9"), row("a \"b\"\nc", "8.25"), other]));
        assert_eq!(merged.cell("1 GB", "add, new", Some(1), "", "").and_then(Row::number), Some(11.0));
        assert!(Record::parse("part,what\n1,2\n").is_err());
    }
}
