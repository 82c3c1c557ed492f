UPDATE remote_agent_conversations SET title = 'Fix the login' WHERE platform_conversation_id = 'acme/app#42';
