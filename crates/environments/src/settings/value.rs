//! What a setting may hold, and reading it from TOML or from a variable.

use std::fmt;

use grove_model::BranchName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Count(u64),
    /// A time in seconds or a size in bytes, with the words that it was given in.
    Measure {
        amount: u64,
        written: String,
    },
    Bool(bool),
    List(Vec<String>),
}

impl Value {
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub fn as_count(&self) -> Option<u64> {
        match self {
            Value::Count(count) | Value::Measure { amount: count, .. } => Some(*count),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_list(&self) -> Option<&[String]> {
        if let Value::List(list) = self { Some(list) } else { None }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Count(count) => count.fmt(f),
            Value::Measure { written, .. } => f.write_str(written),
            Value::Bool(value) => value.fmt(f),
            Value::List(list) => f.write_str(&list.join(", ")),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Shape {
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
    /// Yes, no, or one more word.
    BoolOr(&'static str),
    /// `a, b` in a variable, `["a", "b"]` in a file.
    List,
    /// The same, or one text in a file.
    OneOrMore,
    /// `90s`, `10m`, `2h`, and `0` where it may be nothing; kept in seconds.
    Duration {
        least: u64,
    },
    /// `500MB`, `1GiB`; kept in bytes.
    Size,
    /// `auto` or a number.
    Pool,
    /// Something that a branch name may begin with.
    BranchPrefix,
}

impl Shape {
    /// What a value must look like, to finish "… must be".
    pub fn wanted(self) -> String {
        match self {
            Shape::Text => "a text".to_owned(),
            Shape::Path => "an absolute path, or one that begins with ~/".to_owned(),
            Shape::Address => "an address such as 127.0.0.1:3090, or a port".to_owned(),
            Shape::StoreUrl => "sqlite://PATH or postgres://…".to_owned(),
            Shape::OneOf(words) => format!("one of {}", words.join(", ")),
            Shape::Count { least } => format!("a whole number, {least} or more"),
            Shape::Bool => "true or false".to_owned(),
            Shape::BoolOr(word) => format!("true, false or {word}"),
            Shape::List => "a list of texts".to_owned(),
            Shape::OneOrMore => "a text, or a list of texts".to_owned(),
            Shape::Duration { least: 0 } => "a time such as 90s, 10m or 2h, or 0".to_owned(),
            Shape::Duration { .. } => "a time such as 90s, 10m or 2h".to_owned(),
            Shape::Size => "a size such as 500MB or 1GiB".to_owned(),
            Shape::Pool => "auto or a whole number".to_owned(),
            Shape::BranchPrefix => "the beginning of a branch name, such as grove/".to_owned(),
        }
    }

    /// Reads the text of a variable, of a default, or of a string in a file.
    pub fn read(self, text: &str) -> Option<Value> {
        let text = text.trim();
        let kept = || Some(Value::Text(text.to_owned()));
        match self {
            Shape::Text => kept(),
            Shape::Path => (text.starts_with('/') || text == "~" || text.starts_with("~/")).then(kept)?,
            Shape::Address => {
                let address = if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { text.to_owned() };
                address.parse::<std::net::SocketAddr>().is_ok().then_some(Value::Text(address))
            }
            Shape::StoreUrl => {
                let known = ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
                known.then(kept)?
            }
            Shape::OneOf(words) => words.contains(&text).then(kept)?,
            Shape::Count { least } => text.parse().ok().filter(|count| *count >= least).map(Value::Count),
            Shape::Bool => match text {
                "true" | "1" | "yes" | "on" => Some(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Some(Value::Bool(false)),
                _ => None,
            },
            Shape::BoolOr(word) if text == word => kept(),
            Shape::BoolOr(_) => Shape::Bool.read(text),
            Shape::List | Shape::OneOrMore => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Some(Value::List(items.map(str::to_owned).collect()))
            }
            Shape::Duration { least } => seconds(text)
                .filter(|amount| *amount >= least)
                .map(|amount| Value::Measure { amount, written: text.to_owned() }),
            Shape::Size => bytes(text).map(|amount| Value::Measure { amount, written: text.to_owned() }),
            Shape::Pool => (text == "auto" || text.parse::<u32>().is_ok()).then(kept)?,
            Shape::BranchPrefix => (text.is_empty() || BranchName::parse(&format!("{text}x")).is_ok()).then(kept)?,
        }
    }

    /// Reads a value of a file.
    pub fn read_toml(self, value: &toml_edit::Value) -> Option<Value> {
        match (self, value) {
            // Whatever is in it: a secret may have a comma.
            (Shape::OneOrMore, toml_edit::Value::String(text)) => Some(Value::List(vec![text.value().to_owned()])),
            (Shape::List | Shape::OneOrMore, toml_edit::Value::Array(items)) => {
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                texts.map(Value::List)
            }
            (Shape::List | Shape::OneOrMore, _) => None,
            (Shape::Bool | Shape::BoolOr(_), toml_edit::Value::Boolean(value)) => Some(Value::Bool(*value.value())),
            (
                Shape::Count { .. } | Shape::Duration { .. } | Shape::Pool | Shape::Size | Shape::Address,
                toml_edit::Value::Integer(number),
            ) => self.read(&number.value().to_string()),
            (Shape::Bool | Shape::Count { .. }, _) => None,
            (_, toml_edit::Value::String(text)) => self.read(text.value()),
            _ => None,
        }
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..unit].parse().ok()?, text[unit..].trim()))
}

fn seconds(text: &str) -> Option<u64> {
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

fn bytes(text: &str) -> Option<u64> {
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
        let read = |shape: Shape, text: &str| shape.read(text).map(|value| value.to_string());
        let amount = |shape: Shape, text: &str| shape.read(text).and_then(|value| value.as_count());
        assert_eq!(amount(Shape::Size, "1GiB"), Some(1 << 30));
        assert_eq!(amount(Shape::Size, "500 MB"), Some(500_000_000));
        assert_eq!(amount(Shape::Size, "99999999999999TB"), None);
        let some = Shape::Duration { least: 1 };
        assert_eq!(amount(some, "10m"), Some(600));
        assert_eq!(read(some, "10m").as_deref(), Some("10m"), "shown as it was written");
        assert_eq!(read(some, "0s"), None);
        assert_eq!(read(some, "0"), None);
        assert_eq!(read(some, "10"), None);
        let any = Shape::Duration { least: 0 };
        assert_eq!([amount(any, "0"), amount(any, "0s"), amount(any, "1h")], [Some(0), Some(0), Some(3600)]);
        assert_eq!(read(any, "10"), None, "ten of what");
        assert_eq!(read(Shape::Count { least: 1 }, "abc"), None);
        assert_eq!(read(Shape::Count { least: 1 }, "0"), None);
        assert_eq!(read(Shape::Count { least: 1 }, "-3"), None);
        assert_eq!(read(Shape::Address, "8080").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(read(Shape::Address, "localhost"), None);
        assert_eq!(read(Shape::Path, "relative"), None);
        assert_eq!(read(Shape::List, "a, b,,c").as_deref(), Some("a, b, c"));
        assert_eq!(read(Shape::BranchPrefix, "-x"), None);
        assert_eq!(read(Shape::BranchPrefix, "grove/").as_deref(), Some("grove/"));
        assert_eq!(read(Shape::StoreUrl, "mysql://x"), None);
        let or = Shape::BoolOr("require");
        assert_eq!([or.read("on"), or.read("require")], [Some(Value::Bool(true)), Some(Value::Text("require".into()))]);
        assert_eq!(read(or, "sometimes"), None);
    }
}
