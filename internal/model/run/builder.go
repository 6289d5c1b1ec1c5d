//go:build cgo

package run

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/agent"
	"github.com/docker/cagent/pkg/config"
	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/environment"
	"github.com/docker/cagent/pkg/js"
	"github.com/docker/cagent/pkg/model/provider"
	"github.com/docker/cagent/pkg/model/provider/options"
	"github.com/docker/cagent/pkg/teamloader"
	"github.com/docker/cagent/pkg/tools"
	"github.com/docker/cagent/pkg/tools/builtin"
	"github.com/docker/cagent/pkg/tools/codemode"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/model/dial"
	"fleet/internal/model/tool"
	"fleet/internal/runner/driver"
)

// builder creates the agents of a definition.
type builder struct {
	run         *run
	def         *definition.ParsedDefinition
	agentConfig *fleet.AgentConfig
	mainAgent   string
	workDir     string
	rules       rules
	guards      []*guard // the toolsets that must be stopped when the run ends
}

// newAgent creates the agent with the name. Only the main agent gets the model and the texts that the agent's configuration and
// the task set.
func (b *builder) newAgent(ctx context.Context, name string, c *latest.AgentConfig) (*agent.Agent, error) {
	model, instructions := c.Model, []string{c.Instruction}
	if name == b.mainAgent {
		if b.agentConfig.Model != "" {
			model = b.agentConfig.Model
		}
		instructions = append(instructions, b.run.job.Spec, b.agentConfig.SystemPrompt)
		if b.agentConfig.ReplacesSystemPrompt {
			instructions = []string{b.agentConfig.SystemPrompt}
		}
		if m := b.run.job.Options.Model; m != "" {
			model = m
		}
		instructions = append(instructions, b.run.job.Brief, b.run.job.Options.AppendSystemPrompt, driver.SchemaPrompt(b.run.job.Options.OutputSchema))
	}
	// The library would also search parent directories, and follow links out of the directory.
	instructions = append(instructions, tool.ReadFiles(b.workDir, b.run.job.NoSymlinks, c.AddPromptFiles, definition.MaxDocument)...)
	instructions = slices.DeleteFunc(instructions, func(s string) bool { return strings.TrimSpace(s) == "" })
	opts := []agent.Opt{
		agent.WithDescription(c.Description), agent.WithAddDate(c.AddDate), agent.WithAddEnvironmentInfo(c.AddEnvironmentInfo),
		agent.WithNumHistoryItems(c.NumHistoryItems),
		agent.WithSkillsEnabled(c.Skills != nil && *c.Skills), agent.WithHooks(c.Hooks),
	}
	maxRequests := b.run.settings.MaxRequests
	if c.MaxIterations > 0 {
		maxRequests = min(maxRequests, c.MaxIterations)
	}
	if n := b.run.job.Options.MaxTurns; n != nil {
		maxRequests = min(maxRequests, *n)
	}
	for m := range strings.SplitSeq(model, ",") {
		p, err := b.newModel(ctx, strings.TrimSpace(m), c, maxRequests)
		if err != nil {
			return nil, err
		}
		opts = append(opts, agent.WithModel(p))
	}
	sets, err := b.newToolsets(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return agent.New(name, strings.Join(instructions, "\n\n"), append(opts, agent.WithToolSets(sets...))...), nil
}

// newModel creates a client for a model. When the run has sent maxRequests requests, the client sends no more. The name is the
// name of a model in the definition, or has the form provider/model. If the name is empty, ModelSettings.Model is used
// instead. If that is empty too, or if either is "auto", the model is a model of the first provider that has a key.
func (b *builder) newModel(ctx context.Context, name string, c *latest.AgentConfig, maxRequests int) (provider.Provider, error) {
	env := b.run.secrets
	m, ok := b.def.Config.Models[name]
	switch p, n, hasProvider := strings.Cut(name, "/"); {
	case ok:
	case name == "" && b.run.settings.Model != "" && b.run.settings.Model != "auto":
		return b.newModel(ctx, b.run.settings.Model, c, maxRequests)
	case name == "" || name == "auto":
		m = config.AutoModelConfig(ctx, "", env)
		if m.Provider == "dmr" {
			return nil, fmt.Errorf("the agent names no model, and the environment has no key of a provider: set ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY or MISTRAL_API_KEY in the server's environment, or name a model")
		}
	case hasProvider:
		m = latest.ModelConfig{Provider: p, Model: n}
	default:
		return nil, fmt.Errorf("the definition has no model %q", name)
	}
	m.BaseURL = b.expand(ctx, m.BaseURL)
	_, isCustom := b.def.Config.Providers[m.Provider]
	if m.Provider == "openai" && !isCustom && m.TokenKey == "" {
		m.TokenKey = "OPENAI_API_KEY" // otherwise the client would read the key itself, and secrets.hide would not know it
	}
	maxTokens := defaultMaxTokens
	if m.MaxTokens != nil {
		maxTokens = *m.MaxTokens
	}
	edits, err := bodyEditsOf(&m)
	if err != nil {
		return nil, fmt.Errorf("model %q: provider_opts.request: %w", name, err)
	}
	routeThroughTransport(&m, b.def.Config.Providers)
	p, err := provider.NewWithModels(ctx, &m, b.routableModels(&m), env, options.WithStructuredOutput(c.StructuredOutput),
		options.WithProviders(b.def.Config.Providers), options.WithMaxTokens(maxTokens))
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	return &gatedModel{Provider: p, gate: b.run.gate, maxRequests: maxRequests, edits: edits}, nil
}

// routableModels returns the models to which the rules of a routing model can refer, by name: the models of the definition,
// and the models that the rules name as provider/model.
func (b *builder) routableModels(m *latest.ModelConfig) map[string]latest.ModelConfig {
	all := map[string]latest.ModelConfig{}
	for name, other := range b.def.Config.Models {
		routeThroughTransport(&other, b.def.Config.Providers)
		all[name] = other
	}
	for _, rule := range m.Routing {
		p, n, hasProvider := strings.Cut(rule.Model, "/")
		if _, ok := all[rule.Model]; hasProvider && !ok {
			other := latest.ModelConfig{Provider: p, Model: n}
			routeThroughTransport(&other, b.def.Config.Providers)
			all[rule.Model] = other
		}
	}
	return all
}

// expand expands references to environment variables, like ${env.NAME}, in a URL.
func (b *builder) expand(ctx context.Context, s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return js.NewJsExpander(b.run.secrets).Expand(ctx, s)
}

// newToolsets creates the toolsets of the agent with the name. A toolset of the definition that cannot be created becomes a
// missingToolset. The main agent also gets the MCP servers and tools of the agent's configuration.
func (b *builder) newToolsets(ctx context.Context, name string, c *latest.AgentConfig) ([]tools.ToolSet, error) {
	r := b.run
	var sets []tools.ToolSet
	add := func(description string, s tools.ToolSet, approved bool) {
		g := &guard{ToolSet: s, name: description, run: r, rules: b.rules, approved: approved}
		sets, b.guards = append(sets, g), append(b.guards, g)
	}
	for _, t := range c.Toolsets {
		s, err := callWithTimeout(ctx, r, r.startTimeout(), func(ctx context.Context) (tools.ToolSet, error) { return b.newToolset(ctx, name, &t) })
		if err != nil {
			s = &missingToolset{err: err}
		}
		s = teamloader.WithToolsFilter(s, t.Tools...)
		s = teamloader.WithInstructions(s, t.Instruction)
		add(describeToolset(&t), teamloader.WithToon(s, t.Toon), slices.Contains(r.settings.ApprovedTypes, t.Type))
	}
	if name == b.mainAgent {
		for _, m := range b.agentConfig.MCPServers {
			// The operator has configured the host, so it need not be public.
			s, err := b.newMCPServer(ctx, m, r.secrets, dial.Host(m.URL))
			if err != nil {
				return nil, err
			}
			add(fmt.Sprintf("the MCP server %q", m.Name), s, true)
		}
		if len(b.agentConfig.Tools) > 0 {
			toolsets, err := b.newRegisteredTools(ctx)
			if err != nil {
				return nil, err
			}
			for _, s := range toolsets {
				add("a registered tool", s, true)
			}
		}
		if b.agentConfig.Reports {
			sets = append(sets, &guard{ToolSet: tool.NewReporter(r.job.UID, r.report), run: r, rules: rules{deny: b.rules.deny, allow: b.rules.allow}, approved: true})
		}
	}
	if len(c.SubAgents) > 0 {
		sets = append(sets, builtin.NewTransferTaskTool())
	}
	if len(c.Handoffs) > 0 {
		sets = append(sets, builtin.NewHandoffTool())
	}
	if c.CodeModeTools {
		sets = []tools.ToolSet{&guard{ToolSet: codemode.Wrap(sets...), run: r, rules: b.rules, approved: true}}
	}
	return sets, nil
}

// describeToolset describes a toolset for warnings.
func describeToolset(t *latest.Toolset) string {
	if t.Type == "mcp" {
		for _, name := range []string{t.Name, t.Command, t.Ref, t.Remote.URL} {
			if name != "" {
				return fmt.Sprintf("the MCP server %q", fleet.Shorten(name, 100))
			}
		}
	}
	return "the toolset " + t.Type
}

// newToolset creates a toolset of the definition. The programs of the toolset get a minimal environment, the variables in
// PassEnv, and the variables of the toolset's definition.
func (b *builder) newToolset(ctx context.Context, agent string, t *latest.Toolset) (tools.ToolSet, error) {
	rc := &config.RuntimeConfig{Config: config.Config{WorkingDir: b.workDir}, EnvProviderForTests: b.run.secrets}
	var env []string
	switch t.Type {
	case "shell", "script", "lsp", "mcp", "filesystem":
		values, err := environment.ExpandAll(ctx, environment.ToValues(t.Env), b.run.secrets)
		if err != nil {
			return nil, err
		}
		env = append(b.run.environ(b.agentConfig.PassEnv), values...)
	}
	switch {
	case t.Type == "filesystem":
		return tool.NewFiles(b.workDir, b.run.job.NoSymlinks, t, env, b.run.settings.MaxToolOutput), nil
	case t.Type == "shell":
		return builtin.NewShellTool(env, rc, t.Sandbox), nil
	case t.Type == "script":
		for n, s := range t.Shell {
			if s.WorkingDir == "" {
				s.WorkingDir = b.workDir
				t.Shell[n] = s
			}
		}
		s, err := builtin.NewScriptShellTool(t.Shell, env)
		if err != nil {
			return nil, err
		}
		return tool.NewScripts(s, t.Shell), nil
	case t.Type == "lsp":
		return builtin.NewLSPTool(t.Command, t.Args, env, b.workDir), nil
	case t.Type == "mcp" && t.Command != "":
		return tool.MCPCommand(t.Name, t.Command, t.Args, env, b.workDir), nil
	case t.Type == "mcp" && t.Remote.URL != "":
		expander := js.NewJsExpander(b.run.secrets)
		address := expander.Expand(ctx, t.Remote.URL)
		var allowedHosts []string
		if !b.agentConfig.UntrustedDocument { // the operator has configured the host, so it need not be public
			allowedHosts = []string{dial.Host(address)}
		}
		return tool.MCPRemote(t.Name, address, t.Remote.TransportType, expander.ExpandMap(ctx, t.Remote.Headers), allowedHosts...), nil
	case t.Type == "todo":
		return tool.NewTodos(b.run.job.StateDir, agent, t.Shared), nil
	case t.Type == "memory" && (filepath.IsAbs(t.Path) || t.Path != "" && !filepath.IsLocal(t.Path)):
		return nil, fmt.Errorf("its path must be relative and must not contain ..: the server stores the memories")
	case t.Type == "memory":
		return tool.NewMemories(b.run.job.MemoryDir, t.Path), nil
	}
	return teamloader.NewDefaultToolsetRegistry().CreateTool(ctx, *t, b.workDir, rc)
}
