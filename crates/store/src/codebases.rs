//! `remote_agent_codebases`

use std::path::{Path, PathBuf};

use grove_model::{Codebase, CodebaseId, Moment, RepositoryFolders};
use sqlx::any::AnyRow;

use crate::row::RowReader;
use crate::{Store, StoreError};

macro_rules! columns {
    () => {
        "id, name, repository_url, default_cwd, git_common_dir, default_branch, owner_folder, project_folder, \
         cloned, ai_assistant_type, created_at"
    };
}

const INSERT_CODEBASE: &str = concat!(
    "INSERT INTO remote_agent_codebases (",
    columns!(),
    ", updated_at) ",
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) ON CONFLICT DO NOTHING"
);
const REVIVE_CODEBASE: &str = "UPDATE remote_agent_codebases \
     SET name = $2, repository_url = $3, default_cwd = $4, default_branch = $5, removed_at = NULL, updated_at = $6 \
     WHERE id = $1 AND removed_at IS NOT NULL";
const CODEBASE_BY_REPOSITORY: &str =
    concat!("SELECT ", columns!(), " FROM remote_agent_codebases WHERE git_common_dir = $1 AND removed_at IS NULL");
const REMOVED_CODEBASE_BY_REPOSITORY: &str =
    concat!("SELECT ", columns!(), " FROM remote_agent_codebases WHERE git_common_dir = $1 AND removed_at IS NOT NULL");
const LIST_CODEBASES: &str =
    concat!("SELECT ", columns!(), " FROM remote_agent_codebases WHERE removed_at IS NULL ORDER BY name");
const NAME_OR_FOLDER_TAKEN: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM remote_agent_codebases \
     WHERE (name = $1 AND removed_at IS NULL) OR owner_folder = $2 OR project_folder = $3";
const MOVE_CODEBASE: &str = "UPDATE remote_agent_codebases SET default_cwd = $2, git_common_dir = $3, updated_at = $4 \
     WHERE id = $1 AND removed_at IS NULL";
const REMOVE_CODEBASE: &str =
    "UPDATE remote_agent_codebases SET removed_at = $2, updated_at = $2 WHERE id = $1 AND removed_at IS NULL";

#[derive(Clone, Debug)]
pub struct NewCodebase {
    /// A name given by a person: if it is taken, that is an error. Any other name gets a hash at its end.
    pub given_name: Option<String>,
    pub name: String,
    pub repository_url: Option<String>,
    pub default_cwd: PathBuf,
    pub git_common_dir: PathBuf,
    pub default_branch: Option<String>,
    pub cloned: bool,
    /// The plain folders, and the ones to use when another codebase has the plain ones.
    pub folders: RepositoryFolders,
    pub hashed_folders: RepositoryFolders,
    pub hashed_name: String,
}

impl Store {
    /// Registers a repository, or returns its existing registration.
    pub async fn register_codebase(&self, new: &NewCodebase) -> Result<Codebase, StoreError> {
        // Another process may register the same repository, name or folder between our read and our write
        // (PostgreSQL); then we read again.
        for _ in 0..100 {
            if let Some(codebase) = self.retry_while_disconnected(|| self.try_register(new)).await? {
                return Ok(codebase);
            }
        }
        Err(StoreError::Busy)
    }

    async fn try_register(&self, new: &NewCodebase) -> Result<Option<Codebase>, StoreError> {
        let now = Moment::now();
        let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
        if let Some(row) = sqlx::query(CODEBASE_BY_REPOSITORY)
            .bind(path_to_text(&new.git_common_dir))
            .fetch_optional(&mut *transaction)
            .await?
        {
            return read_codebase(&row).map(Some);
        }
        let removed = sqlx::query(REMOVED_CODEBASE_BY_REPOSITORY)
            .bind(path_to_text(&new.git_common_dir))
            .fetch_optional(&mut *transaction)
            .await?;
        let removed = removed.as_ref().map(read_codebase).transpose()?;
        let mut taken = async |name: &str, owner: &str, project: &str| -> Result<bool, StoreError> {
            let count: i64 = sqlx::query_scalar(NAME_OR_FOLDER_TAKEN)
                .bind(name.to_owned())
                .bind(owner.to_owned())
                .bind(project.to_owned())
                .fetch_one(&mut *transaction)
                .await?;
            Ok(count > 0)
        };
        let name = match &new.given_name {
            Some(given) if taken(given, "", "").await? => return Err(StoreError::NameTaken(given.clone())),
            Some(given) => given.clone(),
            None if taken(&new.name, "", "").await? => new.hashed_name.clone(),
            None => new.name.clone(),
        };
        if let Some(old) = removed {
            let revived = sqlx::query(REVIVE_CODEBASE)
                .bind(old.id.to_string())
                .bind(name.clone())
                .bind(new.repository_url.clone())
                .bind(path_to_text(&new.default_cwd))
                .bind(new.default_branch.clone())
                .bind(now.to_string());
            revived.execute(&mut *transaction).await?;
            transaction.commit().await?;
            let NewCodebase { repository_url, default_cwd, default_branch, .. } = new.clone();
            return Ok(Some(Codebase { name, repository_url, default_cwd, default_branch, ..old }));
        }
        let pick = |plain: &str, hashed: &str, taken: bool| if taken { hashed.to_owned() } else { plain.to_owned() };
        let owner_taken = taken("", &new.folders.owner, "").await?;
        let project_taken = taken("", "", &new.folders.project).await?;
        let codebase = Codebase {
            id: CodebaseId::new(),
            name,
            repository_url: new.repository_url.clone(),
            default_cwd: new.default_cwd.clone(),
            git_common_dir: new.git_common_dir.clone(),
            default_branch: new.default_branch.clone(),
            folders: RepositoryFolders {
                owner: pick(&new.folders.owner, &new.hashed_folders.owner, owner_taken),
                project: pick(&new.folders.project, &new.hashed_folders.project, project_taken),
            },
            cloned: new.cloned,
            ai_assistant_type: None,
            created_at: now,
        };
        let inserted = sqlx::query(INSERT_CODEBASE)
            .bind(codebase.id.to_string())
            .bind(codebase.name.clone())
            .bind(codebase.repository_url.clone())
            .bind(path_to_text(&codebase.default_cwd))
            .bind(path_to_text(&codebase.git_common_dir))
            .bind(codebase.default_branch.clone())
            .bind(codebase.folders.owner.clone())
            .bind(codebase.folders.project.clone())
            .bind(i64::from(codebase.cloned))
            .bind(codebase.ai_assistant_type.clone())
            .bind(codebase.created_at.to_string())
            .execute(&mut *transaction)
            .await?;
        if inserted.rows_affected() == 0 {
            transaction.rollback().await?;
            return Ok(None);
        }
        transaction.commit().await?;
        Ok(Some(codebase))
    }

    pub async fn codebase_of_repository(&self, git_common_dir: &Path) -> Result<Option<Codebase>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(CODEBASE_BY_REPOSITORY)
                .bind(path_to_text(git_common_dir))
                .fetch_optional(&self.pool)
                .await?;
            row.as_ref().map(read_codebase).transpose()
        })
        .await
    }

    pub async fn list_codebases(&self) -> Result<Vec<Codebase>, StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(LIST_CODEBASES).fetch_all(&self.pool).await?.iter().map(read_codebase).collect()
        })
        .await
    }

    /// Records the new location of a codebase's checkout.
    pub async fn move_codebase(&self, id: CodebaseId, checkout: &Path, common_dir: &Path) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let moved = sqlx::query(MOVE_CODEBASE)
                .bind(id.to_string())
                .bind(path_to_text(checkout))
                .bind(path_to_text(common_dir));
            moved.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Ends the registration; the row is kept, for its history and its folders.
    pub async fn unregister_codebase(&self, id: CodebaseId) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(REMOVE_CODEBASE)
                .bind(id.to_string())
                .bind(Moment::now().to_string())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }
}

pub(crate) fn path_to_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn read_codebase(row: &AnyRow) -> Result<Codebase, StoreError> {
    let row = RowReader { row, table: "remote_agent_codebases" };
    Ok(Codebase {
        id: row.parse("id")?,
        name: row.required_text("name")?,
        repository_url: row.optional_text("repository_url")?,
        default_cwd: row.required_text("default_cwd")?.into(),
        git_common_dir: row.required_text("git_common_dir")?.into(),
        default_branch: row.optional_text("default_branch")?,
        folders: RepositoryFolders {
            owner: row.required_text("owner_folder")?,
            project: row.required_text("project_folder")?,
        },
        cloned: row.required_number("cloned")? != 0,
        ai_assistant_type: row.optional_text("ai_assistant_type")?,
        created_at: row.parse("created_at")?,
    })
}
