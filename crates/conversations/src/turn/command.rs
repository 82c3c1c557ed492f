//! Carries out the message of a person: a command, or words for the agent.

use grove_model::IncomingPayload;
use grove_store::InboxOutcome;

use crate::commands::parse::parse_message;
use crate::commands::slash_command::{SlashCommand, WorktreeCommand};
use crate::commands::{agent, codebase, custom, cwd, help, push, reset, status, trust, worktree};
use crate::replies;
use crate::turn::agent::WrittenMessage;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    /// Carries out a command; without one, the message goes to the agent.
    pub(super) async fn perform_command(
        &self,
        command: Option<SlashCommand>,
        written: WrittenMessage<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let Some(command) = command else { return Box::pin(self.answer_words(written)).await };
        let chooses_codebase = command.chooses_codebase();
        let answer = match command {
            SlashCommand::Run(args) => return Box::pin(self.run_custom_command(&args, written)).await,
            SlashCommand::Retry(_) => return Box::pin(self.retry_last_message()).await,
            // The queue answers it while something runs; in its own turn nothing does.
            SlashCommand::Stop(_) => replies::stopping_notice(false).to_owned(),
            SlashCommand::Help(args) => help::help_text(&args),
            SlashCommand::Status => status::show_status(self).await?,
            SlashCommand::Reset => reset::reset_session(self).await?,
            SlashCommand::Codebases => codebase::list_codebases(self).await?,
            SlashCommand::Codebase(args) => codebase::choose_codebase(self, &args.codebase).await?,
            SlashCommand::Register(args) => codebase::register_repository(self, &args).await?,
            SlashCommand::Clone(args) => codebase::clone_repository(self, &args).await?,
            SlashCommand::Cwd(args) => cwd::show_or_choose_cwd(self, &args).await?,
            SlashCommand::Agent(args) => agent::show_or_choose_agent(self, &args).await?,
            SlashCommand::Worktree(command) => {
                match (Box::pin(worktree::run_worktree_command(self, &command)).await, command) {
                    (Ok(answer), _) => answer,
                    (Err(problem), WorktreeCommand::Remove(args)) if !args.force && problem.code == "refused" => {
                        return Ok(TurnOutcome::offering_force(&problem, args.named.worktree.as_deref()));
                    }
                    (Err(problem), _) => return Err(problem.into()),
                }
            }
            SlashCommand::Trust(args) => {
                let answer = trust::show_or_approve(self, &args).await?;
                if args.yes {
                    return Box::pin(self.run_kept_messages(answer, written.seq)).await;
                }
                answer
            }
            SlashCommand::Commands => custom::list_custom_commands(self).await?,
            SlashCommand::Push(args) => Box::pin(push::push_branch(self, &args)).await?,
            SlashCommand::Pr(args) => Box::pin(push::open_pull_request(self, &args)).await?,
        };
        if chooses_codebase {
            return Box::pin(self.run_kept_messages(answer, written.seq)).await;
        }
        Ok(TurnOutcome::from_answer(answer))
    }

    /// Runs the last interrupted message again; a retry command itself does not count.
    async fn retry_last_message(&self) -> Result<TurnOutcome, TurnError> {
        let store = &self.conversations.store;
        for earlier in store.cut_short(self.conversation.id, self.message.seq).await? {
            let IncomingPayload::Message { text, context, hints } = &earlier.event else { continue };
            let command = match parse_message(text) {
                Ok(Some(SlashCommand::Retry(_))) | Err(_) => continue,
                Ok(command) => command,
            };
            let written = WrittenMessage { text, context: context.as_deref(), hints, seq: earlier.seq };
            let ending = self.perform_command(command, written).await?;
            if ending.end == InboxOutcome::Done {
                store.mark_retried(self.key, earlier.id).await?;
            }
            return Ok(ending);
        }
        Ok(TurnOutcome::new(Some(replies::NOTHING_TO_RETRY_REPLY.to_owned()), InboxOutcome::Refused))
    }
}
