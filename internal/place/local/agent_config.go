package local

import (
	"maps"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/driver"
)

// driversByKind describes the capabilities of drivers, by kind of driver.
var driversByKind = map[string]fleet.Driver{
	"claude":  {EnforcesTools: true, LimitsTools: true, Asks: true, SupportsMCPServers: true, ReachesFleet: true, Remembers: true},
	"codex":   {Remembers: true, AddsArguments: true},
	"acp":     {EnforcesTools: true, Asks: true, SupportsMCPServers: true, Remembers: true, NeedsCommand: true},
	"command": {NeedsCommand: true},
	"shell":   {RunsScripts: true},
}

// Drivers returns the drivers that an agent's configuration can name: the kinds of drivers, and the agent CLIs that
// Fleet supports. They are the same for every Place.
func Drivers() []fleet.Driver {
	var all []fleet.Driver
	add := func(name, kind string) {
		d := driversByKind[kind]
		d.Name = name
		all = append(all, d)
	}
	for _, kind := range driver.Kinds {
		add(kind, kind)
	}
	for _, k := range driver.CLIs() {
		if !slices.Contains(driver.Kinds, k.Name) {
			add(k.Name, k.Options.Kind)
			last := &all[len(all)-1]
			last.NeedsCommand, last.AddsArguments = false, true
		}
	}
	return all
}

// configNamesDriver reports whether the agent's configuration names a driver. Such a configuration describes the agent's work instead of
// a project. Other configurations only add settings to the agent's project.
func configNamesDriver(a fleet.Agent) bool { return a.Config != nil && a.Config.Driver != "" }

// agentProject returns the project that describes how the agent works. If the agent's configuration names a driver, agentProject converts
// the configuration to a project. If the configuration only adds settings to the agent's project, agentProject applies them. models are
// the models that a task of the agent names.
func (p *Place) agentProject(a fleet.Agent, models ...string) (project, error) {
	proj, err := project{}, error(nil)
	switch {
	case !configNamesDriver(a):
		proj, err = p.projectOrRetired(a.Project, a.Role)
	case a.Config.Driver == driver.Cagent && len(p.config.Models.Command) > 0:
		proj, err = p.modelProject(a, models...)
	default:
		proj, err = configProject(a)
	}
	if err == nil && proj.dir != "" {
		err = p.checkDir(proj.dir)
	}
	if err != nil || a.Config == nil || proj.modelConfig != nil {
		return proj, err
	}
	if a.Config.KeepFilesFor > 0 && proj.dir == "" && proj.Repository == "" {
		proj.dir, proj.worksInResults = p.resultsDir(a.UID), true
	}
	if a.Config.MayEdit {
		proj.Roles = slices.Clone(proj.Roles)
		for i := range proj.Roles {
			proj.Roles[i].allowEdits()
		}
	}
	return proj, nil
}

// configProject converts an agent's configuration to a project with one role. It returns PROVISIONING_FAILED if this place
// cannot support the configuration.
func configProject(a fleet.Agent) (project, error) {
	c := a.Config
	o, known := configOptions(c)
	if !known {
		return refuse("this machine has no driver %q: it has %s", c.Driver, strings.Join(fleet.Traits{Drivers: Drivers()}.DriverNames(), ", "))
	}
	d, err := driver.New(o)
	if err != nil {
		return refuse("the agent's configuration is invalid: %s", err)
	}
	capabilities := driversByKind[o.Kind]
	if c.Ask != nil && !capabilities.Asks {
		return refuse("the driver %q does not ask for permissions: leave out ask, or use claude", c.Driver)
	}
	if !capabilities.EnforcesTools && (c.Allow != nil || len(c.Deny) > 0) || !capabilities.SupportsMCPServers && len(c.MCPServers) > 0 {
		return refuse("the driver %q cannot restrict tools or provide MCP servers: leave these out, or use claude", c.Driver)
	}
	if len(c.Tools) > 0 {
		return refuse("the driver %q does not support registered tools: register the tool for an agent with another driver", c.Driver)
	}
	if err := checkVariables("pass_env", c.PassEnv); err != nil {
		return refuse("the agent's configuration is invalid: %s", err)
	}
	role := Role{Name: a.Role, Default: true, Prompt: c.SystemPrompt, Model: c.Model, DisallowedTools: c.Deny}
	if role.MCPServers, err = configServers(c); err != nil {
		return project{}, err
	}
	role.Tools, role.AllowedTools = toolLists(c)
	if c.Ask != nil {
		role.Permissions = &driver.Permissions{Deny: c.Deny, Ask: c.Ask, Timeout: c.AskTimeout}
	}
	if o.Kind == "acp" { // these programs ask for permission before they change files
		if c.Allow == nil {
			role.PermissionMode = acp.AcceptEdits
		}
		role.Tools = nil // the program chooses its own tools, so Fleet allows or denies each call
		if rule := acp.FindReadRule(c.Deny); rule != "" {
			return refuse("the driver %q cannot enforce deny: %s, because its program does not ask before it reads: leave out the rule, or use claude", c.Driver, rule)
		}
	}
	return project{
		Project: Project{Name: a.Project, PassEnv: c.PassEnv, Roles: []Role{role}}, driver: d, dir: c.Dir,
	}, nil
}

// refuse returns PROVISIONING_FAILED, for a configuration that this place cannot support.
func refuse(format string, args ...any) (project, error) {
	return project{}, fleet.Errorf(fleet.ReasonProvisioningFailed, format, args...)
}

// configOptions returns the options of the configuration's driver, and whether Fleet knows the driver. A command receives the
// standing instructions and the task on its standard input, unless one of its arguments is a template.
func configOptions(c *fleet.AgentConfig) (o driver.Options, known bool) {
	for _, k := range driver.CLIs() {
		if k.Name == c.Driver && k.Options.Kind != k.Name {
			o := k.Options
			o.Command = append(slices.Clone(o.Command), c.Command...)
			if c.Model != "" && o.Kind == "command" {
				o.Command = append(o.Command, "--model", "{{.Model}}")
			}
			return o, true
		}
	}
	o = withProgramDefaults(driver.Options{Kind: c.Driver, Command: c.Command})
	if c.Driver == "codex" { // the arguments of the configuration follow the program codex
		o.Command = append([]string{"codex"}, c.Command...)
	}
	if c.Driver == "command" && !slices.ContainsFunc(c.Command, func(a string) bool { return strings.Contains(a, "{{") }) {
		o.Stdin = "{{.Brief}}"
	}
	return o, slices.Contains(driver.Kinds, c.Driver)
}

// toolLists returns two lists. The list tools has Claude Code's own tools that the agent has: those that its configuration
// allows, or for which the agent may ask. The list allowed has the tools that need no permission. The agent may also use the
// tools of its MCP servers: all tools of a server, or only single tools if the configuration allows only these. An empty list
// in the configuration means no tools. Without a list, tools is nil, which means all tools.
func toolLists(c *fleet.AgentConfig) (tools, allowed []string) {
	allowed = slices.Clone(c.Allow)
	if c.Allow == nil || len(c.Allow) > 0 {
		for _, s := range c.MCPServers {
			prefix := "mcp__" + s.Name
			if !slices.ContainsFunc(c.Allow, func(rule string) bool { return rule == prefix || strings.HasPrefix(rule, prefix+"__") }) {
				allowed = append(allowed, prefix)
			}
		}
	}
	if c.Allow == nil {
		return nil, allowed
	}
	tools = []string{}
	for _, rule := range slices.Concat(c.Allow, c.Ask) {
		tool, _, _ := strings.Cut(rule, "(")
		if tool = strings.TrimSpace(tool); !strings.HasPrefix(tool, "mcp__") && !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	return tools, allowed
}

// configServers returns the configuration's MCP servers by name. It does not expand references to variables in them. It returns
// PROVISIONING_FAILED if two servers have the same name, or one has no name or a name that Fleet uses itself.
func configServers(c *fleet.AgentConfig) (map[string]driver.MCPServer, error) {
	servers := map[string]driver.MCPServer{}
	for _, s := range c.MCPServers {
		if _, twice := servers[s.Name]; twice || s.Name == "" || s.Name == driver.ReportServer || s.Name == driver.AskServer {
			return nil, fleet.Errorf(fleet.ReasonProvisioningFailed,
				"an MCP server of the agent cannot have the name %q: each name can be used only once, and Fleet uses %q and %q itself", s.Name, driver.ReportServer, driver.AskServer)
		}
		d := driver.MCPServer{Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers}
		if s.URL != "" {
			d.Type = "http"
		}
		servers[s.Name] = d
	}
	return servers, nil
}

// mcpServers returns the MCP servers of a run. If the agent's configuration names a driver, mcpServers replaces the configuration's
// references to environment variables of Fleet's process by their values. The values are written only into a file of the run.
func (p *Place) mcpServers(a fleet.Agent, role Role) (map[string]driver.MCPServer, error) {
	if !configNamesDriver(a) {
		return role.MCPServers, nil
	}
	expanded := map[string]driver.MCPServer{}
	for _, name := range slices.Sorted(maps.Keys(role.MCPServers)) {
		s := role.MCPServers[name]
		var err error
		if s.Env, err = p.expandAll(name, s.Env); err != nil {
			return nil, err
		}
		if s.Headers, err = p.expandAll(name, s.Headers); err != nil {
			return nil, err
		}
		expanded[name] = s
	}
	return expanded, nil
}

// expandAll returns the texts of an MCP server with the references to variables replaced by their values. It returns
// PROVISIONING_FAILED if a variable is not set or may not be used, or if a reference is not valid.
func (p *Place) expandAll(server string, texts map[string]string) (map[string]string, error) {
	if texts == nil {
		return nil, nil
	}
	expanded := make(map[string]string, len(texts))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		value, err := fleet.Expand(texts[key], p.lookUpVariable)
		if err != nil {
			return nil, fleet.Errorf(fleet.ReasonProvisioningFailed, "%s of the MCP server %q: %s", key, server, fleet.PublicMessage(err))
		}
		expanded[key] = value
	}
	return expanded, nil
}

// lookUpVariable returns a variable of the server's environment. It does not find variables that agents may not have.
func (p *Place) lookUpVariable(name string) (string, bool) {
	if fleet.IsReservedVariable(name) {
		return "", false
	}
	for _, v := range slices.Backward(p.config.Environ) { // the last of several values counts
		if key, value, ok := strings.Cut(v, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}
