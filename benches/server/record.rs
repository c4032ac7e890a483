//! Reads and writes the cells: each measured number is a row of docs/performance-cells.csv. The pages and the pictures
//! are made from these rows.

use super::failure::Failure;

/// One measured number, or the description of the machine on which a part was measured.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Row {
    /// Its part: a size of filter, or another section of the page.
    pub(crate) part: String,
    /// The work or the measured thing.
    pub(crate) what: String,
    /// Items per command, if a command is measured.
    pub(crate) per_command: Option<usize>,
    /// Kind of filter, if there are several.
    pub(crate) kind: String,
    /// Name of the quantity.
    pub(crate) quantity: String,
    /// Its value: the median if there were several rounds.
    pub(crate) value: String,
    /// The median distance from the median.
    pub(crate) deviation: Option<f64>,
    /// Unit of the value, the deviation and the goal.
    pub(crate) unit: String,
    /// The goal, if there is one.
    pub(crate) at_most: Option<f64>,
}

impl Row {
    /// Returns the value as a number.
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

/// Part of the rows that describe the machine and the rounds for the part `what`.
pub(crate) const MACHINE: &str = "machine";

/// All cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record(Vec<Row>);

impl Record {
    /// Reads the text of the file.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        Ok(Self(reader.deserialize().collect::<Result<_, _>>()?))
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        self.0.iter().try_for_each(|row| writer.serialize(row))?;
        Ok(String::from_utf8(writer.into_inner().map_err(|error| error.to_string())?)?)
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Row) {
        self.0.push(row);
    }

    /// Replaces rows by those of `newer` for the same cells, and adds the other rows of `newer` after them.
    pub(crate) fn overwrite(&mut self, newer: Self) {
        for row in newer.0 {
            match self.0.iter_mut().find(|old| old.has_place_of(&row)) {
                Some(old) => *old = row,
                None => self.0.push(row),
            }
        }
    }

    /// Returns the rows of a part.
    pub(crate) fn part(&self, part: &str) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.part == part)
    }

    /// Returns one cell.
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

    /// Returns the different values of a column in a part, in order.
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
    fn a_record_is_read_as_written_and_overwritten_by_a_newer_one() {
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
