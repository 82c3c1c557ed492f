//! The values that a setting may hold, and reading them from TOML or from a variable.

use std::fmt;

use grove_model::BranchName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    Text(String),
    Count(u64),
    /// A time in seconds or a size in bytes, with the text that it was given as.
    Measure {
        amount: u64,
        written: String,
    },
    Bool(bool),
    List(Vec<String>),
}

impl SettingValue {
    pub fn as_text(&self) -> Option<&str> {
        if let SettingValue::Text(text) = self { Some(text) } else { None }
    }

    pub fn as_count(&self) -> Option<u64> {
        match self {
            SettingValue::Count(count) | SettingValue::Measure { amount: count, .. } => Some(*count),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let SettingValue::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_list(&self) -> Option<&[String]> {
        if let SettingValue::List(list) = self { Some(list) } else { None }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Text(text) => f.write_str(text),
            SettingValue::Count(count) => count.fmt(f),
            SettingValue::Measure { written, .. } => f.write_str(written),
            SettingValue::Bool(value) => value.fmt(f),
            SettingValue::List(list) => f.write_str(&list.join(", ")),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum SettingShape {
    Text,
    Path,
    /// `host:port`, or a port alone.
    Address,
    StoreUrl,
    OneOf(&'static [&'static str]),
    Count {
        least: u64,
    },
    Bool,
    /// Yes, no, or one other word.
    BoolOr(&'static str),
    /// `a, b` in a variable, `["a", "b"]` in a file.
    List,
    /// A list as above, or one text in a file.
    OneOrMore,
    /// `90s`, `10m`, `2h`, and `0` where zero is allowed; kept in seconds.
    Duration {
        least: u64,
    },
    /// `500MB`, `1GiB`; kept in bytes.
    Size,
    /// `auto` or a number.
    Pool,
    /// A valid beginning of a branch name.
    BranchPrefix,
}

impl SettingShape {
    /// Returns the text that finishes "… must be".
    pub fn expected_value_text(self) -> String {
        match self {
            SettingShape::Text => "a text".to_owned(),
            SettingShape::Path => "an absolute path, or one that begins with ~/".to_owned(),
            SettingShape::Address => "an address such as 127.0.0.1:3090, or a port".to_owned(),
            SettingShape::StoreUrl => "sqlite://PATH or postgres://…".to_owned(),
            SettingShape::OneOf(words) => format!("one of {}", words.join(", ")),
            SettingShape::Count { least } => format!("a whole number, {least} or more"),
            SettingShape::Bool => "true or false".to_owned(),
            SettingShape::BoolOr(word) => format!("true, false or {word}"),
            SettingShape::List => "a list of texts".to_owned(),
            SettingShape::OneOrMore => "a text, or a list of texts".to_owned(),
            SettingShape::Duration { least: 0 } => "a time such as 90s, 10m or 2h, or 0".to_owned(),
            SettingShape::Duration { .. } => "a time such as 90s, 10m or 2h".to_owned(),
            SettingShape::Size => "a size such as 500MB or 1GiB".to_owned(),
            SettingShape::Pool => "auto or a whole number".to_owned(),
            SettingShape::BranchPrefix => "the beginning of a branch name, such as grove/".to_owned(),
        }
    }

    /// Reads the text of a variable, of a default, or of a string in a file.
    pub fn parse_value(self, text: &str) -> Option<SettingValue> {
        let text = text.trim();
        let kept = || Some(SettingValue::Text(text.to_owned()));
        match self {
            SettingShape::Text => kept(),
            SettingShape::Path => (text.starts_with('/') || text == "~" || text.starts_with("~/")).then(kept)?,
            SettingShape::Address => {
                let address = if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { text.to_owned() };
                address.parse::<std::net::SocketAddr>().is_ok().then_some(SettingValue::Text(address))
            }
            SettingShape::StoreUrl => {
                let known = ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
                known.then(kept)?
            }
            SettingShape::OneOf(words) => words.contains(&text).then(kept)?,
            SettingShape::Count { least } => text.parse().ok().filter(|count| *count >= least).map(SettingValue::Count),
            SettingShape::Bool => match text {
                "true" | "1" | "yes" | "on" => Some(SettingValue::Bool(true)),
                "false" | "0" | "no" | "off" => Some(SettingValue::Bool(false)),
                _ => None,
            },
            SettingShape::BoolOr(word) if text == word => kept(),
            SettingShape::BoolOr(_) => SettingShape::Bool.parse_value(text),
            SettingShape::List | SettingShape::OneOrMore => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Some(SettingValue::List(items.map(str::to_owned).collect()))
            }
            SettingShape::Duration { least } => parse_seconds(text)
                .filter(|amount| *amount >= least)
                .map(|amount| SettingValue::Measure { amount, written: text.to_owned() }),
            SettingShape::Size => {
                parse_bytes(text).map(|amount| SettingValue::Measure { amount, written: text.to_owned() })
            }
            SettingShape::Pool => (text == "auto" || text.parse::<u32>().is_ok()).then(kept)?,
            SettingShape::BranchPrefix => {
                (text.is_empty() || BranchName::parse(&format!("{text}x")).is_ok()).then(kept)?
            }
        }
    }

    /// Reads a value of a file.
    pub fn read_toml(self, value: &toml_edit::Value) -> Option<SettingValue> {
        match (self, value) {
            // Taken whole, whatever is in it: a secret may contain a comma.
            (SettingShape::OneOrMore, toml_edit::Value::String(text)) => {
                Some(SettingValue::List(vec![text.value().to_owned()]))
            }
            (SettingShape::List | SettingShape::OneOrMore, toml_edit::Value::Array(items)) => {
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                texts.map(SettingValue::List)
            }
            (SettingShape::List | SettingShape::OneOrMore, _) => None,
            (SettingShape::Bool | SettingShape::BoolOr(_), toml_edit::Value::Boolean(value)) => {
                Some(SettingValue::Bool(*value.value()))
            }
            (
                SettingShape::Count { .. }
                | SettingShape::Duration { .. }
                | SettingShape::Pool
                | SettingShape::Size
                | SettingShape::Address,
                toml_edit::Value::Integer(number),
            ) => self.parse_value(&number.value().to_string()),
            (SettingShape::Bool | SettingShape::Count { .. }, _) => None,
            (_, toml_edit::Value::String(text)) => self.parse_value(text.value()),
            _ => None,
        }
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..unit].parse().ok()?, text[unit..].trim()))
}

fn parse_seconds(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit {
        "" if number == 0 => 0,
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000 * 1000,
        "gb" => 1000 * 1000 * 1000,
        "tb" => 1000 * 1000 * 1000 * 1000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused() {
        let read = |shape: SettingShape, text: &str| shape.parse_value(text).map(|value| value.to_string());
        let amount = |shape: SettingShape, text: &str| shape.parse_value(text).and_then(|value| value.as_count());
        assert_eq!(amount(SettingShape::Size, "1GiB"), Some(1 << 30));
        assert_eq!(amount(SettingShape::Size, "500 MB"), Some(500_000_000));
        assert_eq!(amount(SettingShape::Size, "99999999999999TB"), None);
        let some = SettingShape::Duration { least: 1 };
        assert_eq!(amount(some, "10m"), Some(600));
        assert_eq!(read(some, "10m").as_deref(), Some("10m"), "shown as it was written");
        assert_eq!(read(some, "0s"), None);
        assert_eq!(read(some, "0"), None);
        assert_eq!(read(some, "10"), None);
        let any = SettingShape::Duration { least: 0 };
        assert_eq!([amount(any, "0"), amount(any, "0s"), amount(any, "1h")], [Some(0), Some(0), Some(3600)]);
        assert_eq!(read(any, "10"), None, "ten of what");
        assert_eq!(read(SettingShape::Count { least: 1 }, "abc"), None);
        assert_eq!(read(SettingShape::Count { least: 1 }, "0"), None);
        assert_eq!(read(SettingShape::Count { least: 1 }, "-3"), None);
        assert_eq!(read(SettingShape::Address, "8080").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(read(SettingShape::Address, "localhost"), None);
        assert_eq!(read(SettingShape::Path, "relative"), None);
        assert_eq!(read(SettingShape::List, "a, b,,c").as_deref(), Some("a, b, c"));
        assert_eq!(read(SettingShape::BranchPrefix, "-x"), None);
        assert_eq!(read(SettingShape::BranchPrefix, "grove/").as_deref(), Some("grove/"));
        assert_eq!(read(SettingShape::StoreUrl, "mysql://x"), None);
        let or = SettingShape::BoolOr("require");
        assert_eq!(
            [or.parse_value("on"), or.parse_value("require")],
            [Some(SettingValue::Bool(true)), Some(SettingValue::Text("require".into()))]
        );
        assert_eq!(read(or, "sometimes"), None);
    }
}
