//! Finds the environment that a person means: by branch, by work (`issue-42`), or by the start of its id.

use grove_model::Environment;

use crate::error::EnvironmentError;

/// Returns the environment of this name. The strongest kind of match decides: a branch before a work before
/// an id.
pub fn find_by_name<'a>(name: &str, environments: &'a [Environment]) -> Result<&'a Environment, EnvironmentError> {
    match matches_by_name(name, environments, |environment| environment)[..] {
        [] => Err(EnvironmentError::NoSuch(name.to_owned())),
        [one] => Ok(one),
        ref several => {
            let candidates = several.iter().map(|e| format!("{} ({})", e.id, e.branch)).collect();
            Err(EnvironmentError::Ambiguous { name: name.to_owned(), candidates })
        }
    }
}

pub(crate) fn matches_by_name<'a, T>(name: &str, all: &'a [T], environment: impl Fn(&T) -> &Environment) -> Vec<&'a T> {
    let by_branch = |e: &Environment| e.branch.as_str() == name;
    let by_work = |e: &Environment| format!("{}-{}", e.work.work_kind(), e.work.id()) == name;
    // A work that shares the environment of another work.
    let number = |prefix: &str| name.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
    let (issue, pr) = (number("issue-"), number("pr-").or(number("review-")));
    let by_link = |e: &Environment| {
        issue.is_some_and(|n| e.related_issues.contains(&n)) || pr.is_some_and(|n| e.related_prs.contains(&n))
    };
    let by_id = |e: &Environment| !name.is_empty() && e.id.to_string().starts_with(name);
    let ways: [&dyn Fn(&Environment) -> bool; 4] = [&by_branch, &by_work, &by_link, &by_id];
    let mut found = ways.iter().map(|way| all.iter().filter(|item| way(environment(item))).collect::<Vec<_>>());
    found.find(|found| !found.is_empty()).unwrap_or_default()
}
