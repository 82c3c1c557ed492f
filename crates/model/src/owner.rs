//! Which process is at work on something: enough to tell, on the same machine, whether it still is.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The machine, as records name it.
    pub node: String,
    /// Changes with every start of the machine.
    pub boot: String,
    /// The process-id namespace: a container counts its own processes.
    pub namespace: String,
    pub process: u32,
    /// When the process began, in the kernel's ticks: ids are used again, this is not.
    pub started: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` does not name a process")]
pub struct NotAnOwner(pub String);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.node, self.boot, self.namespace, self.process, self.started)
    }
}

impl FromStr for Owner {
    type Err = NotAnOwner;
    fn from_str(text: &str) -> Result<Self, NotAnOwner> {
        let wrong = || NotAnOwner(text.to_owned());
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
        assert_eq!(text.parse::<Owner>().unwrap().to_string(), text);
        assert!("host 17".parse::<Owner>().is_err() && "a b c d e".parse::<Owner>().is_err());
    }
}
