package npm

import (
	"encoding/json"
	"strings"
)

// coderRole returns the role of the agents under test. The fields in more are added to it or replace its own.
func coderRole(more role) role {
	r := role{"name": "coder", "default": true, "prompt": "You are the coder of this crew."}
	for k, v := range more {
		r[k] = v
	}
	return r
}

// codexProvider configures Codex to use the stub. URL stands for the URL of the stub.
const codexProvider = `{"name":"stub","base_url":"URL/v1","env_key":"OPENAI_API_KEY","wire_api":"responses"}`

// codexEditPrompt is the editPrompt of Codex, with the driver codex and with acp.
const codexEditPrompt = `model: tool exec_command {"cmd":"apply_patch <<EOF\n*** Begin Patch\n*** Add File: made.txt\n+made by a tool\n*** End Patch\nEOF"}`

// codexFailureCodes are the failureCodes of Codex, with the driver codex and with acp.
var codexFailureCodes = map[string]string{"401 bad key": "AUTH", "429 slow down": "RATE_LIMITED", "500 broken": "OVERLOADED", "400 wrong": "INVALID_REQUEST", "400 [context_length_exceeded] too long": "CONTEXT_FULL"}

func anthropicEnv(url string) map[string]string { return (&model{url: url}).env() }

func asJSON(v any) string {
	b, _ := json.Marshal(v) // callers pass only values that JSON has
	return string(b)
}

// agents are the programs that Fleet is tested with.
var agents = []agent{
	{
		name: "claude", packages: "claude", driver: "claude", command: []string{"claude"}, env: anthropicEnv,
		role:       coderRole(role{"model": pricedModel, "permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(echo *)", "Bash(tail *)"}}),
		runPrompt:  `model: tool Bash {"command":%s}`,
		editPrompt: `model: tool Write {"file_path":"made.txt","content":"made by a tool\n"}`,
		wantSteps:  []string{"Bash: echo allowed", "Write: made.txt"}, reportsCost: true, canAsk: true, processSuffix: "claude",
	},
	{
		name: "codex", packages: "agents", driver: "codex",
		command: []string{
			"codex", "-c", `model_provider="stub"`, "-c", `model_providers.stub.name="stub"`, "-c", `model_providers.stub.base_url="URL/v1"`,
			"-c", `model_providers.stub.env_key="OPENAI_API_KEY"`, "-c", `model_providers.stub.wire_api="responses"`,
		},
		env:        func(string) map[string]string { return map[string]string{"OPENAI_API_KEY": "sk-stub"} },
		role:       coderRole(role{"model": "gpt-5.2-codex"}),
		runPrompt:  `model: tool exec_command {"cmd":%s}`,
		editPrompt: codexEditPrompt,
		wantSteps:  []string{"shell: echo allowed", "edit: made.txt"}, processSuffix: "codex",
		retryAnswer:  "500 broken",
		failureCodes: codexFailureCodes,
		manySteps: []string{
			`model: think "Where should I begin?" tool exec_command {"cmd":"echo one"}`,
			`model: tool exec_command {"cmd":"cat missing.txt"}`,
			`model: tool exec_command {"cmd":"apply_patch <<EOF\n*** Begin Patch\n*** Add File: made.txt\n+l1\n+l2\n+l3\n*** End Patch\nEOF"}`,
			`model: tool exec_command {"cmd":"apply_patch <<EOF\n*** Begin Patch\n*** Update File: made.txt\n@@\n l1\n-l2\n+L2\n l3\n*** End Patch\nEOF"}`,
			`model: tool update_plan {"plan":[{"step":"Look","status":"completed"},{"step":"Write","status":"in_progress"}]}`,
			`model: tool ASK_USER {"question":"Tabs or spaces?","options":["tabs","spaces"]}`,
		},
	},
	{
		name: "codex-acp", packages: "agents", driver: "acp", command: []string{"codex-acp"},
		env: func(url string) map[string]string {
			config := map[string]any{
				"model": "gpt-5.2-codex", "model_provider": "stub",
				"model_providers": map[string]any{"stub": json.RawMessage(strings.ReplaceAll(codexProvider, "URL", url))},
			}
			return map[string]string{"OPENAI_API_KEY": "sk-stub", "CODEX_CONFIG": asJSON(config), "MODEL_PROVIDER": "stub"}
		},
		role: coderRole(role{"permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(echo *)", "Bash(tail *)"}}),
		// The sandbox of Codex does not work inside Fleet's sandbox, so Codex must ask to run commands without its own
		// sandbox.
		runPrompt:  `model: tool exec_command {"cmd":%s,"sandbox_permissions":"require_escalated","justification":"the test"}`,
		editPrompt: codexEditPrompt,
		wantSteps:  []string{"echo allowed", "made.txt"}, asksPermission: true, canAsk: true, processSuffix: "app-server",
		retryAnswer:   "500 broken",
		failureCodes:  codexFailureCodes,
		contextTokens: 1500,
		manySteps: []string{
			`model: think "Where should I begin?" tool exec_command {"cmd":"echo one","sandbox_permissions":"require_escalated","justification":"the test"}`,
			`model: tool exec_command {"cmd":"cat missing.txt","sandbox_permissions":"require_escalated","justification":"the test"}`,
			`model: tool exec_command {"cmd":"apply_patch <<EOF\n*** Begin Patch\n*** Add File: made.txt\n+l1\n+l2\n+l3\n*** End Patch\nEOF"}`,
			`model: tool exec_command {"cmd":"apply_patch <<EOF\n*** Begin Patch\n*** Update File: made.txt\n@@\n l1\n-l2\n+L2\n l3\n*** End Patch\nEOF"}`,
			`model: tool update_plan {"plan":[{"step":"Look","status":"completed"},{"step":"Write","status":"in_progress"}]}`,
			`model: tool exec_command {"cmd":"git init asked","sandbox_permissions":"require_escalated","justification":"the test"}`,
			`model: tool exec_command {"cmd":"rm made.txt","sandbox_permissions":"require_escalated","justification":"the test"}`,
		},
	},
	{
		name: "opencode", packages: "agents", driver: "acp", command: []string{"opencode", "acp"},
		env: func(url string) map[string]string {
			return map[string]string{"OPENCODE_CONFIG_CONTENT": asJSON(map[string]any{
				"model": "stub/stub-large", "small_model": "stub/stub-small", "autoupdate": false,
				"provider": map[string]any{"stub": map[string]any{
					"npm": "@ai-sdk/openai-compatible", "name": "Stub", "options": map[string]any{"baseURL": url + "/v1", "apiKey": "sk-stub"},
					"models": map[string]any{
						"stub-large": map[string]any{"name": "large", "cost": map[string]any{"input": 3, "output": 15}, "limit": map[string]any{"context": 200000, "output": 8000}},
						"stub-small": map[string]any{"name": "small"},
					},
				}},
			})}
		},
		role:       coderRole(role{"permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(echo *)", "Bash(tail *)"}}),
		runPrompt:  `model: tool bash {"command":%s,"description":"Runs it"}`,
		editPrompt: `model: tool write {"filePath":"made.txt","content":"made by a tool\n"}`,
		wantSteps:  []string{"echo allowed", "made.txt"}, asksPermission: true, canAsk: true, reportsCost: true, processSuffix: "acp",
		failureCodes:  map[string]string{"400 wrong": "", "400 [context_length_exceeded] too long": "CONTEXT_FULL"}, // OpenCode does not report the HTTP status
		contextTokens: 1000,
		manySteps: []string{
			`model: think "Where should I begin?" tool bash {"command":"echo one","description":"Says it"}`,
			`model: tool read {"filePath":"missing.txt"}`,
			`model: tool write {"filePath":"made.txt","content":"l1\nl2\nl3\n"}`,
			`model: tool edit {"filePath":"made.txt","oldString":"l2","newString":"L2"}`,
			`model: tool todowrite {"todos":[{"content":"Look","status":"completed","priority":"high","id":"1"},{"content":"Write","status":"in_progress","priority":"high","id":"2"}]}`,
			`model: tool bash {"command":"git init asked","description":"Makes a repository"}`,
		},
	},
	{
		name: "gemini", packages: "agents", driver: "acp", command: []string{"gemini", "--acp", "--model", "gemini-2.5-flash"},
		env: func(url string) map[string]string {
			return map[string]string{"GEMINI_API_KEY": "sk-stub", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_TELEMETRY_ENABLED": "false"}
		},
		role:       coderRole(role{"permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(echo *)", "Bash(tail *)"}}),
		runPrompt:  `model: tool run_shell_command {"command":%s}`,
		editPrompt: `model: tool write_file {"file_path":"made.txt","content":"made by a tool\n"}`,
		wantSteps:  []string{"echo allowed", "made.txt"}, asksPermission: true, canAsk: true, processSuffix: "--acp",
		failureCodes: map[string]string{"401 bad key": "AUTH", "429 slow down": "RATE_LIMITED", "400 wrong": "INVALID_REQUEST"},
		manySteps: []string{
			`model: think "**Begin** Where should I begin?" tool run_shell_command {"command":"echo one"}`,
			`model: tool read_file {"file_path":"missing.txt"}`,
			`model: tool write_file {"file_path":"made.txt","content":"l1\nl2\nl3\n"}`,
			`model: tool replace {"file_path":"made.txt","old_string":"l2","new_string":"L2","instruction":"Change it"}`,
			`model: tool write_todos {"todos":[{"description":"Look","status":"completed"},{"description":"Write","status":"in_progress"}]}`,
			`model: tool run_shell_command {"command":"git init asked"}`,
			`model: tool run_shell_command {"command":"rm made.txt"}`,
			`model: tool run_shell_command {"command":"touch refused.txt"}`,
		},
	},
	{
		name: "claude-agent-acp", packages: "agents", driver: "acp", command: []string{"claude-agent-acp"}, env: anthropicEnv,
		role:       coderRole(role{"permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(echo *)", "Bash(tail *)"}}),
		runPrompt:  `model: tool Bash {"command":%s}`,
		editPrompt: `model: tool Write {"file_path":"made.txt","content":"made by a tool\n"}`,
		wantSteps:  []string{"echo allowed", "made.txt"}, asksPermission: true, canAsk: true, reportsCost: true, processSuffix: "claude",
		failureCodes:  map[string]string{"401 bad key": "AUTH", "429 slow down": "RATE_LIMITED", "500 broken": "OVERLOADED", "400 wrong": "INVALID_REQUEST"},
		files:         map[string]string{".claude/settings.json": `{"hooks":{"PreToolUse":[{"matcher":"Write","hooks":[{"type":"command","command":"echo about to write"}]}]}}`},
		contextTokens: 1500,
		manySteps: []string{
			`model: think "Where should I begin?" tool Bash {"command":"echo one"}`,
			`model: tool Read {"file_path":"missing.txt"}`,
			`model: tool Write {"file_path":"made.txt","content":"l1\nl2\nl3\n"}`,
			`model: tool Edit {"file_path":"made.txt","old_string":"l2","new_string":"L2"}`,
			`model: tool TodoWrite {"todos":[{"content":"Look","status":"completed","activeForm":"Looking"},{"content":"Write","status":"in_progress","activeForm":"Writing"}]}`,
			`model: tool Bash {"command":"git init asked"}`,
			`model: tool Bash {"command":"touch refused.txt"}`,
			`model: tool Bash {"command":"sleep 0.1; echo later","run_in_background":true}`,
			`model: tool Task {"description":"look","subagent_type":"general-purpose","run_in_background":false,"prompt":"model: tool Bash {\"command\":\"echo inner\"}\nmodel: say Seen"}`,
		},
	},
}
