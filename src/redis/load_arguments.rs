//! The arguments of MODULE LOAD: name and value pairs that become the defaults of the settings.

use std::borrow::Cow;

use super::config::{BadValue, SETTINGS, Setting};

/// Reads the arguments into the settings. Both RedisBloom's old words (`ERROR_RATE`) and the names of the
/// settings, with `bf.`, with `bf-` and without either, are understood in upper and lower case. RedisBloom's
/// settings of cuckoo filters are passed over. Answers warnings for the log.
///
/// # Errors
/// A line for the log, RedisBloom's where it has one; the module must not load then.
pub(super) fn apply(arguments: &[&[u8]]) -> Result<Vec<String>, String> {
    // A single empty argument counts as none, as in RedisBloom: launchers pass an unset variable that way.
    if arguments == [b"".as_slice()] {
        return Ok(Vec::new());
    }
    let mut warnings = Vec::new();
    let (pairs, rest) = arguments.as_chunks::<2>();
    if let [word] = rest {
        return Err(format!("Invalid number of arguments passed: no value for '{}'", text(word)));
    }
    for [word, value] in pairs {
        if is_of_cuckoo_filters(word) {
            warnings.push(format!("'{}' is ignored: this module has no cuckoo filters", text(word)));
            continue;
        }
        let setting = SETTINGS
            .iter()
            .find(|setting| is_named(setting, word))
            .ok_or_else(|| format!("Unrecognized option '{}'", text(word)))?;
        setting.set_default(value).map_err(|bad| describe(bad, word, setting))?;
    }
    Ok(warnings)
}

/// Whether it is a setting of RedisBloom's other filters, such as `CF_MAX_EXPANSIONS` or `cf-bucket-size`.
fn is_of_cuckoo_filters(word: &[u8]) -> bool {
    word.get(..3)
        .is_some_and(|start| [b"cf-", b"cf_"].iter().any(|prefix| start.eq_ignore_ascii_case(*prefix)))
}

fn is_named(setting: &Setting, word: &[u8]) -> bool {
    let plain = setting.dashed.to_bytes().strip_prefix(b"bf-").unwrap_or_default();
    [setting.dotted.to_bytes(), setting.dashed.to_bytes(), plain]
        .into_iter()
        .chain(setting.legacy.map(str::as_bytes))
        .any(|name| name.eq_ignore_ascii_case(word))
}

/// The setting is named as it was in the arguments.
fn describe(bad: BadValue, word: &[u8], setting: &Setting) -> String {
    let name = text(word);
    match bad {
        BadValue::NotANumber => format!("Invalid argument for '{name}'"),
        BadValue::OutOfRange => format!("'{name}' must be in the range {}", setting.range_text()),
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
