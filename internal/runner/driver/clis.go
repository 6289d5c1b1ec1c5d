package driver

// CLI is an agent CLI that needs no configuration once it is installed.
type CLI struct {
	Name        string // the name of the program, and of its project in Fleet
	DisplayName string
	Options     Options
	Install     string // the command that installs it
}

// CLIs returns the known agent CLIs, Claude Code first.
//
// The options do not give a program any permissions. The role and the configuration of the program decide what the program may do.
func CLIs() []CLI {
	return []CLI{
		{
			Name: "claude", DisplayName: "Claude Code", Install: "npm install -g @anthropic-ai/claude-code",
			Options: Options{Kind: "claude"},
		},
		{
			Name: "codex", DisplayName: "Codex", Install: "npm install -g @openai/codex",
			Options: Options{Kind: "codex"},
		},
		{
			Name: "gemini", DisplayName: "Gemini CLI", Install: "npm install -g @google/gemini-cli",
			Options: Options{
				Kind: "acp", Command: []string{"gemini", "--acp"}, Keys: []string{"GEMINI_*", "GOOGLE_*"}, TestedVersion: "0.61.0",
				// Otherwise Gemini CLI runs commands in a pseudo-terminal, which a confined program cannot create.
				Env: map[string]string{"GEMINI_PTY_INFO": "child_process"},
				// Gemini CLI names the files of a session by the minute. It starts to write a session's new file before
				// it reads the existing files.
				WaitsForNextMinute: true,
				// Otherwise Gemini CLI removes all files of a session if one of the files is empty, and each start
				// creates an empty file.
				Home: map[string]string{".gemini/settings.json": `{"general":{"sessionRetention":{"enabled":false}}}` + "\n"},
			},
		},
		{
			Name: "opencode", DisplayName: "opencode", Install: "npm install -g opencode-ai",
			Options: Options{
				Kind: "acp", Command: []string{"opencode", "acp"}, TestedVersion: "1.18.33",
				Keys: []string{"OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_API_KEY", "GROQ_API_KEY"},
				// Otherwise OpenCode never asks for permissions.
				Env: map[string]string{"OPENCODE_PERMISSION": `{"edit":"ask","bash":"ask","webfetch":"ask"}`},
			},
		},
		{
			Name: "codex-acp", DisplayName: "Codex over ACP", Install: "npm install -g @agentclientprotocol/codex-acp",
			Options: Options{
				Kind: "acp", Command: []string{"codex-acp"}, Keys: []string{"OPENAI_*", "CODEX_*"}, TestedVersion: "2.6.0",
				// Otherwise another model decides about requests for permissions. Here the role must decide.
				Env: map[string]string{"INITIAL_AGENT_MODE": "read-only", "NO_BROWSER": "1"},
			},
		},
		{
			Name: "claude-agent-acp", DisplayName: "Claude Code over ACP", Install: "npm install -g @agentclientprotocol/claude-agent-acp",
			Options: Options{
				Kind: "acp", Command: []string{"claude-agent-acp"}, TestedVersion: "0.101.0",
				Keys: []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"},
			},
		},
	}
}

// HowToInstall returns how to install the program, as the last clause of an error text. It returns an empty text for an unknown
// program.
func HowToInstall(program string) string {
	for _, c := range CLIs() {
		if c.Name == program {
			return "install it with \"" + c.Install + "\""
		}
	}
	switch program {
	case "bash", "git":
		return "install the package \"" + program + "\" of your system"
	}
	return ""
}
