//! Reads the results of the benchmark of the pure modules.

use std::path::Path;

/// One benchmark of the pure modules.
pub(crate) struct Pure {
    /// Its name in the tables.
    pub(crate) what: String,
    /// Time per item, in nanoseconds: the median and the median distance from it.
    pub(crate) item_ns: (f64, f64),
}

/// Group, function, parameters, and items per step.
const BENCHMARKS: [(&str, &[&str], &[&str], f64); 4] = [
    ("hash", &["ours", "crate"], &["8", "13", "16", "24", "32", "256"], 1.0),
    ("sizing", &[""], &["100", "1000000", "1000000000"], 1.0),
    ("single", &["contains_hit", "contains_miss", "insert_known"], LAYOUTS, 1000.0),
    ("batch", &["contains_hit", "contains_miss", "add_new"], LAYOUTS, 1000.0),
];
const LAYOUTS: &[&str] = &["scattered", "paged", "paged_1e-6"];

/// Returns all results, or an empty list if that benchmark was not run.
pub(crate) fn read(directory: &Path) -> Vec<Pure> {
    let mut found = Vec::new();
    for (group, functions, parameters, items) in BENCHMARKS {
        for parameter in parameters {
            for function in functions {
                let file = directory.join(group).join(function).join(parameter).join("new/estimates.json");
                let Ok(text) = std::fs::read_to_string(file) else { continue };
                let times = (estimate(&text, "median"), estimate(&text, "median_abs_dev"));
                if let (Some(median), Some(deviation)) = times {
                    let what = format!("{group} {function} {parameter}").replace("  ", " ");
                    found.push(Pure { what, item_ns: (median / items, deviation / items) });
                }
            }
        }
    }
    found
}

/// Returns the point estimate of a statistic in criterion's file.
fn estimate(text: &str, statistic: &str) -> Option<f64> {
    let estimates: serde_json::Value = serde_json::from_str(text).ok()?;
    estimates.pointer(&format!("/{statistic}/point_estimate"))?.as_f64()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_read_and_not_its_deviation() {
        use super::*;
        let text = "{\"median\":{\"confidence_interval\":{\"confidence_level\":0.95,\"lower_bound\":1.0},\
                    \"point_estimate\":7.25,\"standard_error\":0.1},\"median_abs_dev\":{\"confidence_interval\":{},\
                    \"point_estimate\":0.5}}";
        assert_eq!((estimate(text, "median"), estimate(text, "median_abs_dev")), (Some(7.25), Some(0.5)));
        assert_eq!(estimate(text, "slope"), None);
    }
}
