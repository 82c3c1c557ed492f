//! The vocabulary of Grovekeeper as types: pure data, no I/O, no clock.
//!
//! Everything here is parsed once at the edge and then trusted: a [`BranchName`] is one that git
//! accepts, a [`FolderName`] is one safe path component, a [`Work`] has an id that fits its kind.

mod branch;
mod environment;
mod folder;
mod ids;
mod incoming;
mod message;
mod owner;
mod removal;
mod time;
mod user_text;
mod work;

pub use branch::{BranchName, BranchNameError};
pub use environment::{
    AdoptedFrom, Codebase, Environment, EnvironmentMetadata, GitOperation, InitScript, InitStatus, MergeMethod,
    PullRequestInfo, State, Status, UnknownWordError,
};
pub use folder::FolderName;
pub use ids::{
    CodebaseId, CommitSha, ConversationId, EnvironmentId, MessageId, Nonce, ParseIdError, ParseShaError,
    RepositoryFolders,
};
pub use incoming::{IncomingEvent, IncomingPayload, RepositoryHint, WorkHints, is_of_this_machine};
pub use message::{Choice, ChoiceOption, EventOutcome, MessageStatus, OutboxKind};
pub use owner::{ParseOwnerError, ProcessOwner};
pub use removal::{Question, RemovalAnswer, TrashPhase};
pub use time::Moment;
pub use user_text::{CommandHint, Span, UserText};
pub use work::{PullRequestHead, Work, WorkError, WorkKey, WorkKind};

use sha2::{Digest, Sha256};

/// Returns the first `digits` hexadecimal digits of the SHA-256 of `text`.
pub fn short_hash(text: &[u8], digits: usize) -> String {
    let digest = Sha256::digest(text);
    let mut hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(digits);
    hex
}

/// Formats a size for people: `1.5 GiB`.
pub fn human_size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", units[unit]) }
}
