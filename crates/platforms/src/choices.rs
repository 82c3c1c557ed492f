//! Buttons for questions with a fixed set of answers.
//!
//! A button carries the id of the question's message and the number of its option, so that it fits into what
//! every platform allows. Pressing it sends the option's text as a message of the person who pressed it.

use grove_conversations::conversations::Conversations;
use grove_model::{Choice, MessageId};
use grove_store::StoreError;

/// A button to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceButton {
    pub label: String,
    /// The text that the platform sends back when the button is pressed; at most 48 bytes.
    pub data: String,
}

/// The maximum number of buttons; a platform shows no more in one row.
const MAX_BUTTONS: usize = 5;

/// Returns the buttons of a question: none if it has too many options, which are then typed.
pub fn choice_buttons(question: MessageId, choice: &Choice) -> Vec<ChoiceButton> {
    if choice.options.len() > MAX_BUTTONS {
        return Vec::new();
    }
    let button = |(at, option): (usize, &grove_model::ChoiceOption)| ChoiceButton {
        label: option.label.clone(),
        data: format!("{question}:{at}"),
    };
    choice.options.iter().enumerate().map(button).collect()
}

/// A button that was pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressedButton {
    /// The platform's id of the conversation in which the question stands.
    pub conversation: String,
    pub question: MessageId,
    /// The text of the option.
    pub text: String,
}

/// Returns the meaning of a pressed button; `None` if no question of this platform has it.
pub async fn find_pressed(
    conversations: &Conversations,
    platform: &str,
    data: &str,
) -> Result<Option<PressedButton>, StoreError> {
    let Some((question, at)) = data.split_once(':') else { return Ok(None) };
    let (Ok(question), Ok(at)) = (question.parse::<MessageId>(), at.parse::<usize>()) else { return Ok(None) };
    let Some((conversation, choice)) = conversations.store.find_choice(question).await? else { return Ok(None) };
    let option = choice.options.into_iter().nth(at);
    Ok(option.filter(|_| conversation.platform == platform).map(|option| PressedButton {
        conversation: conversation.id,
        question,
        text: option.text,
    }))
}
