//! The process that works on something: enough facts to tell, on the same machine, whether it still runs.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOwner {
    /// The machine, as records name it.
    pub node: String,
    /// Changes with every start of the machine.
    pub boot: String,
    /// The process-id namespace: a container counts its own processes.
    pub namespace: String,
    pub process: u32,
    /// The start time of the process in the kernel's ticks: process ids are reused, start times are not.
    pub started: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` does not name a process")]
pub struct ParseOwnerError(pub String);

impl fmt::Display for ProcessOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.node, self.boot, self.namespace, self.process, self.started)
    }
}

impl FromStr for ProcessOwner {
    type Err = ParseOwnerError;
    fn from_str(text: &str) -> Result<Self, ParseOwnerError> {
        let wrong = || ParseOwnerError(text.to_owned());
        let fields: Vec<&str> = text.split(' ').collect();
        let [node, boot, namespace, process, started] = fields[..] else { return Err(wrong()) };
        Ok(Self {
            node: node.to_owned(),
            boot: boot.to_owned(),
            namespace: namespace.to_owned(),
            process: process.parse().map_err(|_| wrong())?,
            started: started.parse().map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_survives_the_store() {
        let text = "host 1b4e28ba 4026531836 17 12345";
        assert_eq!(text.parse::<ProcessOwner>().unwrap().to_string(), text);
        assert!("host 17".parse::<ProcessOwner>().is_err() && "a b c d e".parse::<ProcessOwner>().is_err());
    }
}
