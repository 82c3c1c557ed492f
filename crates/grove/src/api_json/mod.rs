//! JSON answers for scripts: the same for `--json` and for the API. The OpenAPI document is made from these
//! types.
//!
//! A key that may be `null` is `required` in the document; one that may be absent is not.

mod codebases;
mod conversations;
mod problem;
mod removal;
mod schema;
mod status;
mod worktrees;

pub use codebases::{CodebaseDetailsJson, CodebaseJson};
pub use conversations::{
    AcceptedMessageJson, ChoiceJson, ConversationJson, ConversationLineJson, LineKind, LineRole, MessagesJson,
};
pub use problem::ErrorJson;
pub use removal::{FinishedJson, RemovalPlanJson, RemovedJson, TrashedFolderJson, removable_of};
pub use schema::{work_hints, work_kinds};
pub use status::{AdapterJson, StatusJson, load_status};
pub use worktrees::{HibernatedWorktreeJson, RestoredWorktreeJson, WorktreeJson};
