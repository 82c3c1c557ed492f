//! Schemas of words that other crates define, so that the document lists exactly the words that exist.

use grove_model::{
    AdoptedFrom, GitOperation, InitStatus, MergeMethod, MessageStatus, Question, State, Status, WorkKind,
};
use utoipa::openapi::schema::{ArrayBuilder, Object, ObjectBuilder, SchemaType, Type};

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// Returns the schema of a key that holds one of these words or `null`.
fn words_or_null<'a>(words: impl IntoIterator<Item = &'a str>) -> Object {
    let words = words.into_iter().map(Some).chain([None]);
    let string_or_null = SchemaType::from_iter([Type::String, Type::Null]);
    ObjectBuilder::new().schema_type(string_or_null).enum_values(Some(words)).build()
}

pub fn statuses() -> Object {
    words(Status::ALL.iter().map(|word| word.as_str()))
}

pub fn states() -> Object {
    words(State::ALL.iter().map(|word| word.as_str()))
}

pub fn merge_methods() -> Object {
    words_or_null(MergeMethod::ALL.iter().map(|word| word.as_str()))
}

pub fn git_operations() -> Object {
    words_or_null(GitOperation::ALL.iter().map(|word| word.as_str()))
}

pub fn adoptions() -> Object {
    words(AdoptedFrom::ALL.iter().map(|word| word.as_str()))
}

pub fn init_statuses() -> Object {
    words_or_null(InitStatus::ALL.iter().map(|word| word.as_str()))
}

pub fn questions() -> Object {
    words(Question::ALL.iter().map(|word| word.as_str()))
}

pub fn work_kinds() -> Object {
    words_or_null(WorkKind::ALL.iter().map(|kind| kind.as_str()))
}

/// Returns the schema of the facts that an adapter knows about the work.
pub fn work_hints() -> Object {
    let text = || ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::String, Type::Null]));
    let numbers = || {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        ArrayBuilder::new().schema_type(SchemaType::from_iter([Type::Array, Type::Null])).items(number)
    };
    let text_or_number = SchemaType::from_iter([Type::String, Type::Integer, Type::Null]);
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .property("workflowType", work_kinds())
        .property("workflowId", ObjectBuilder::new().schema_type(text_or_number))
        .property("prBranch", text())
        .property("prSha", text())
        .property("isForkPR", ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Boolean, Type::Null])))
        .property("linkedIssues", numbers())
        .property("linkedPRs", numbers())
        .property("suggestedBranch", text())
        .property("title", text())
        .build()
}

pub fn message_statuses() -> Object {
    words(MessageStatus::ALL.iter().map(|word| word.as_str()))
}
