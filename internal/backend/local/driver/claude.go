package driver

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// claude runs Claude Code headless. The tasks of an agent are one conversation: each run resumes the one before.
type claude struct{ argv []string }

func newClaude(o Options) claude {
	if len(o.Command) > 0 {
		return claude{o.Command}
	}
	return claude{[]string{"claude"}}
}

func (c claude) Program() string { return c.argv[0] }

func (c claude) Keys() []string {
	return []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"}
}

func (c claude) Command(j Job) (Command, error) {
	const mcpFile, stdinFile = "mcp.json", "stdin"
	prompt, system := j.Prompt, standing(j)
	known, told := parseConversation(j.Session), fingerprint(system)
	out := Command{SplitStderr: true, Format: Format{Kind: "claude", Resumed: j.Session, Told: told}}
	argv := append([]string{}, c.argv...)
	argv = append(argv, "-p", "--verbose", "--output-format", "stream-json", "--setting-sources", "project")
	flag := func(name, value string) {
		if value != "" {
			argv = append(argv, name, value)
		}
	}
	switch {
	case len(system) > MaxArgument:
		prompt, system = brief(j), ""
	case known.id != "" && known.told != told:
		// Claude Code keeps the system prompt that a conversation began with.
		prompt = "What you were told about yourself has changed. From now on this holds instead:\n\n" + brief(j)
	}
	flag("--append-system-prompt", system)
	flag("--model", j.Role.Model)
	// One argument for each list, since a list as several would swallow what follows it.
	if j.Role.Tools != nil {
		argv = append(argv, "--tools", strings.Join(j.Role.Tools, ","))
	}
	flag("--allowedTools", strings.Join(j.Role.AllowedTools, ","))
	flag("--disallowedTools", strings.Join(j.Role.DisallowedTools, ","))
	flag("--permission-mode", j.Role.PermissionMode)
	if len(j.Role.MCPServers) > 0 {
		b, err := json.Marshal(map[string]any{"mcpServers": j.Role.MCPServers})
		if err != nil {
			return Command{}, err
		}
		// Its headers and variables may be secrets, so it lives as long as the run, and no other run reads it.
		out.Files = append(out.Files, File{Name: mcpFile, Data: string(b), Secret: true})
		argv = append(argv, "--mcp-config", j.path(mcpFile), "--strict-mcp-config")
	}
	flag("--resume", known.id)
	if len(prompt) > MaxArgument {
		out.Files = append(out.Files, File{Name: stdinFile, Data: prompt})
		out.StdinFile = stdinFile
	} else {
		argv = append(argv, "--", prompt)
	}
	out.Argv = argv
	return out, checkArguments(argv, "shorten the role's options")
}

// conversation is a session of Claude Code, as it is written down: its id and what it was told about the agent.
type conversation struct{ id, told string }

func parseConversation(s string) conversation {
	id, told, _ := strings.Cut(s, " ")
	return conversation{id, told}
}

func (c conversation) String() string {
	if c.id == "" {
		return ""
	}
	return strings.TrimSpace(c.id + " " + c.told)
}

// fingerprint tells texts apart.
func fingerprint(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

// claudeParser reads the events of --output-format stream-json, one a line. It passes over what it does not know.
//
// A run has several results when work in the background goes on after the first one: the last one counts, and what
// they cost adds up.
type claudeParser struct {
	resumed conversation
	told    string // what this run tells about the agent
	heard   bool   // the model has answered, so it was told
	session string
	said    string // the last text it wrote
	garbage string // the last line that is not an event
	result  *claudeEvent
	cost    float64
	turns   int
}

type claudeEvent struct {
	Type      string   `json:"type"`
	Subtype   string   `json:"subtype"`
	SessionID string   `json:"session_id"`
	Parent    *string  `json:"parent_tool_use_id"` // set: a subagent's
	IsError   bool     `json:"is_error"`
	Result    string   `json:"result"`
	Errors    []string `json:"errors"`
	Cost      float64  `json:"total_cost_usd"`
	Turns     int      `json:"num_turns"`
	// Since is what was used since the result before, by model; Cost is that of the whole conversation, in versions that
	// have it, and that of the run in older ones.
	Since map[string]struct {
		Cost float64 `json:"costUSD"`
	} `json:"model_usage_since_last_result"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

type claudeBlock struct {
	Type  string         `json:"type"`
	Text  string         `json:"text"`
	Name  string         `json:"name"`
	Input map[string]any `json:"input"`
}

func (p *claudeParser) Line(line []byte) []Piece {
	var e claudeEvent
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		if line[0] == '{' && json.Valid(line) {
			return nil // an event of a form that is not known
		}
		text := Clean(line)
		p.garbage = plain(text)
		return []Piece{{Text: text + "\n"}}
	}
	if e.SessionID != "" {
		p.session = e.SessionID
	}
	switch e.Type {
	case "result":
		p.took(&e)
	case "assistant":
		p.heard = true
		return p.assistant(e)
	}
	return nil
}

// took takes a result.
func (p *claudeParser) took(e *claudeEvent) {
	p.result = e
	p.turns += e.Turns
	if e.Since == nil {
		p.cost = e.Cost
	}
	for _, m := range e.Since {
		p.cost += m.Cost
	}
}

func (p *claudeParser) assistant(e claudeEvent) []Piece {
	var blocks []claudeBlock
	if err := json.Unmarshal(e.Message.Content, &blocks); err != nil {
		return nil
	}
	var said []Piece
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use" && b.Name != "":
			said = append(said, Piece{Step: true, Text: toolStep(b.Name, b.Input)})
		case b.Type == "text" && e.Parent == nil && strings.TrimSpace(b.Text) != "":
			p.said = b.Text
			said = append(said, Piece{Text: valid(strings.TrimRight(b.Text, "\n")) + "\n"})
		}
	}
	return said
}

// toolStep says in one line what the tool is used for: what a person would ask first.
func toolStep(name string, input map[string]any) string {
	name = strings.ReplaceAll(strings.TrimPrefix(name, "mcp__"), "__", ".")
	for _, key := range []string{
		"command", "file_path", "notebook_path", "pattern", "url", "query", "description", "path", "prompt", "skill",
	} {
		if s, ok := input[key].(string); ok && strings.TrimSpace(s) != "" {
			return oneLine(valid(name + ": " + s))
		}
	}
	return oneLine(valid(name))
}

func (p *claudeParser) Result(e Exit) Result {
	why := lastLine(e.Stderr)
	if why == "" {
		why = p.garbage
	}
	o := outcome(e, shorten(valid(why), maxReason))
	r := Result{Session: p.conversation().String()}
	switch res := p.result; {
	case res == nil:
		report(&o, p.said)
		if e.Code == 0 {
			fail(&o, "claude ended without a result")
		}
	case res.IsError || strings.HasPrefix(res.Subtype, "error"):
		fail(&o, claudeFailure(res))
		report(&o, p.said)
	default:
		report(&o, res.Result)
	}
	o.CostUSD, o.Turns = p.cost, p.turns
	if p.resumed.id != "" && strings.Contains(o.Reason+e.Stderr+p.garbage, "No conversation found") {
		r.Session, r.Forget = "", true
		o.Reason += "; the agent's next task begins a new conversation"
	}
	r.Outcome = o
	return r
}

// conversation is what the agent's next run goes on with.
func (p *claudeParser) conversation() conversation {
	c := conversation{p.session, p.told}
	if !p.heard && p.session == p.resumed.id {
		c.told = p.resumed.told
	}
	return c
}

// claudeFailure says why the result is a failure.
func claudeFailure(e *claudeEvent) string {
	words := strings.Join(e.Errors, "; ")
	if words == "" {
		words = e.Result
	}
	switch e.Subtype {
	case "error_max_turns":
		words = fmt.Sprintf("it reached its limit of turns after %d", e.Turns)
	case "error_max_budget_usd":
		words = fmt.Sprintf("it reached its limit of cost at $%.2f", e.Cost)
	}
	if words == "" {
		words = "claude reported a failure without a reason (" + e.Subtype + ")"
	}
	return shorten(valid(words), maxReason)
}
