//! The environment that a person means: by branch, by work (`issue-42`), or by the start of its id.

use grove_model::Environment;

use super::IsolationError;

/// The strongest way of naming that fits decides: a branch before a work before an id.
pub fn find<'a>(name: &str, environments: &'a [Environment]) -> Result<&'a Environment, IsolationError> {
    let by_branch = |e: &&Environment| e.branch.as_str() == name;
    let by_work = |e: &&Environment| format!("{}-{}", e.work.kind(), e.work.id()) == name;
    let by_id = |e: &&Environment| name.len() >= 4 && e.id.to_string().starts_with(name);
    let ways: [&dyn Fn(&&Environment) -> bool; 3] = [&by_branch, &by_work, &by_id];
    for way in ways {
        let found: Vec<&Environment> = environments.iter().filter(way).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(one),
            _ => {
                let candidates = found.iter().map(|e| format!("{} ({})", e.id, e.branch)).collect();
                return Err(IsolationError::Ambiguous { name: name.to_owned(), candidates });
            }
        }
    }
    Err(IsolationError::NoSuch(name.to_owned()))
}
