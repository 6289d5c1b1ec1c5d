package subagents

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/schema"
	"fleet/internal/service"
)

var (
	// namePattern matches names of subagents.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	// serverPattern matches names of MCP servers. Such a name becomes part of the names of the server's tools.
	serverPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	// rulePattern matches a permission in Claude Code's notation: a tool, optionally with a restriction.
	rulePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_*-]*(\([^\x00-\x1f\x7f]*\))?$`)
	// variablePattern matches names of environment variables. With a * at the end, it means all that begin like this.
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)
)

// parse returns the definition in data, the content of the file src. memory is the content of its memory.md; nil if
// there is none. drivers are the drivers of the local place. An error describes the problem with the file; the caller
// puts "FILE: " before it.
func parse(src source, data, memory []byte, drivers []fleet.Driver) (*Definition, error) {
	if !utf8.Valid(data) || !utf8.Valid(memory) {
		return nil, errors.New("it is not UTF-8 text")
	}
	h, body, warnings, err := parseFrontmatter(data)
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(body, 0) || strings.ContainsRune(string(memory), 0) {
		return nil, errors.New("it contains a zero byte: remove the zero byte")
	}
	d := &Definition{
		Name: src.name, Description: strings.TrimSpace(h.Description), AllowedCallers: []string{MainCaller}, Subagents: h.Calls, Session: h.Session,
		Project: h.Project, Role: h.Role, Driver: h.Driver, Command: h.Command, Model: h.Model, PassEnv: h.PassEnv,
		Allow: h.Permissions.Allow, Deny: h.Permissions.Deny, Ask: h.Permissions.Ask, Body: body, Warnings: warnings,
	}
	if src.isSingleFile && h.Name != "" {
		d.Name = h.Name // Claude Code uses the name in the file
	}
	if d.Model == inheritModel {
		d.Model = ""
	}
	if h.AllowedCallers != nil {
		d.AllowedCallers = *h.AllowedCallers
	}
	if m := strings.TrimSpace(string(memory)); m != "" && d.Session {
		d.Body = strings.TrimSpace(body + "\n\n# Memory\n\n" + m)
	} else if m != "" {
		d.Warnings = append(d.Warnings, memoryFile+" has no effect without session: true")
	}
	for _, step := range []func(header) error{d.checkNames, d.setTools, d.setTimeout, d.setServers, d.setOutput} {
		if err := step(h); err != nil {
			return nil, err
		}
	}
	if err := d.setPlace(h, drivers); err != nil {
		return nil, err
	}
	return d, nil
}

// inheritModel is the model in Claude Code's agent files that means the caller's model. A subagent is a separate
// program, so here it means the driver's default model.
const inheritModel = "inherit"

// setTools converts the keys tools and disallowedTools of Claude Code's agent files to permissions, and checks the
// permissions.
func (d *Definition) setTools(h header) error {
	for _, k := range []struct {
		key, permission string
		list            *toolList
		target          *[]string
	}{{"tools", "allow", h.Tools, &d.Allow}, {"disallowedTools", "deny", h.DisallowedTools, &d.Deny}} {
		switch {
		case k.list == nil:
		case *k.target != nil:
			return fmt.Errorf("%s and permissions.%s mean the same: keep one of them", k.key, k.permission)
		default:
			*k.target = *k.list
		}
	}
	if h.Tools != nil {
		// Published agent files name tools of plugins that no driver has. Omitting such a tool only reduces what the agent
		// can do.
		d.Allow = slices.DeleteFunc(d.Allow, func(r string) bool {
			unknown := !rulePattern.MatchString(r)
			if unknown {
				d.Warnings = append(d.Warnings, fmt.Sprintf("tools: %q is not the name of a tool and is left out", fleet.Shorten(r, 64)))
			}
			return unknown
		})
	}
	for _, r := range slices.Concat(d.Allow, d.Deny, d.Ask) {
		if !rulePattern.MatchString(r) {
			return fmt.Errorf("permissions: %q is not a tool: write it like \"Read\", \"Bash(git log:*)\" or \"mcp__server__tool\"", fleet.Shorten(r, 64))
		}
	}
	return nil
}

func (d *Definition) checkNames(h header) error {
	switch {
	case d.Name == MainCaller:
		return fmt.Errorf("%q means every caller that is not an agent: choose another name", MainCaller)
	case !namePattern.MatchString(d.Name):
		return errors.New("a subagent's name must be 1 to 64 letters, digits, dots, hyphens and underscores: rename its directory, or correct its name")
	}
	if h.Name != "" && h.Name != d.Name {
		return fmt.Errorf("name is %q, but the directory is %q: give both the same name", fleet.Shorten(h.Name, 64), d.Name)
	}
	for _, list := range []struct {
		key   string
		names []string
	}{{"allowed_callers", d.AllowedCallers}, {"calls", d.Subagents}} {
		for _, n := range list.names {
			if n == "" || len(n) > 64 || strings.ContainsFunc(n, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
				return fmt.Errorf("%s: %q is not a valid name", list.key, fleet.Shorten(n, 64))
			}
		}
	}
	if slices.Contains(d.Subagents, MainCaller) {
		return fmt.Errorf("calls: %q is not a subagent", MainCaller)
	}
	for _, v := range d.PassEnv {
		if !variablePattern.MatchString(v) || fleet.IsReservedVariable(v) {
			return fmt.Errorf("pass_env: %q is not an environment variable that can be passed on", fleet.Shorten(v, 64))
		}
	}
	return nil
}

func (d *Definition) setTimeout(h header) error {
	if h.TimeoutMS == nil {
		return nil
	}
	ms, maxMS := *h.TimeoutMS, float64(service.MaxTaskTimeout.Milliseconds())
	if ms != math.Trunc(ms) || ms < 1 || ms > maxMS {
		return fmt.Errorf("timeout_ms must be a whole number from 1 to %.0f", maxMS)
	}
	d.Timeout = time.Duration(ms) * time.Millisecond
	return nil
}

// fleetServer is the name of Fleet's own MCP server, through which an agent runs subagents. Definitions cannot use it.
const fleetServer = "fleet"

func (d *Definition) setServers(h header) error {
	for i, s := range h.MCPServers {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("mcp_servers[%d] %q: %s", i, fleet.Shorten(s.Name, 64), fmt.Sprintf(format, args...))
		}
		if !serverPattern.MatchString(s.Name) || strings.Contains(s.Name, "__") {
			return fail("the name of a server must consist of letters, digits, hyphens and single underscores")
		}
		if s.Name == fleetServer || slices.ContainsFunc(h.MCPServers[:i], func(o mcpServer) bool { return o.Name == s.Name }) {
			return fail("a server with this name already exists: choose another name")
		}
		if (s.Command == "") == (s.URL == "") {
			return fail("a server needs either a command or a url: give exactly one of them")
		}
		if s.URL != "" {
			if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return fail("url is not an http or https address")
			}
			if len(s.Args) > 0 || len(s.Env) > 0 {
				return fail("args and env are for servers with a command")
			}
		} else if len(s.Headers) > 0 {
			return fail("headers are for servers with a url")
		}
		for _, text := range append([]string{s.Command, s.URL}, s.Args...) {
			if strings.Contains(text, "${") {
				return fail("variables are allowed only in env and headers: other users of the machine can see command, args and url")
			}
		}
		for key := range s.Env {
			if !variablePattern.MatchString(key) || strings.HasSuffix(key, "*") {
				return fail("env: %q is not a valid name of an environment variable", fleet.Shorten(key, 64))
			}
		}
		d.MCPServers = append(d.MCPServers, fleet.MCPServer(s))
	}
	return nil
}

func (d *Definition) setOutput(h header) error {
	switch h.OutputFormat {
	case "", outputText:
		d.OutputFormat = outputText
		if h.OutputSchema != nil && h.OutputFormat == outputText {
			return errors.New("output_schema is for output_format: json")
		}
	case outputJSON:
		d.OutputFormat = outputJSON
	default:
		return fmt.Errorf("output_format is %q: it must be text or json", fleet.Shorten(h.OutputFormat, 40))
	}
	if h.OutputSchema == nil {
		return nil
	}
	d.OutputFormat = outputJSON
	b, err := json.Marshal(h.OutputSchema)
	if err != nil {
		return errors.New("output_schema contains a value that JSON does not have")
	}
	d.Schema = b
	if d.compiledSchema, err = schema.Compile(b); err != nil {
		return fmt.Errorf("output_schema is not a valid JSON Schema: %w", err)
	}
	return nil
}

// setPlace sets where the agent runs and its driver, and checks that both can enforce the definition. drivers are the drivers
// of the local place.
func (d *Definition) setPlace(h header, drivers []fleet.Driver) error {
	restricted := d.Allow != nil || d.Ask != nil || len(d.Deny) > 0 || len(d.MCPServers) > 0
	switch h.Container {
	case "", runsInLocal:
		d.RunsIn = runsInLocal
		if d.Project != "" || d.Role != "" {
			return errors.New("project and role are for container: coder")
		}
	case runsInCoder:
		d.RunsIn, d.Remembers = runsInCoder, true
		if d.Project == "" {
			return errors.New("container: coder needs a project, one of list_agent_projects")
		}
		if restricted || d.Driver != "" || len(d.Command) > 0 || d.Model != "" || len(d.PassEnv) > 0 || len(d.Subagents) > 0 {
			return errors.New("in a workspace the project's template says what the agent may do: permissions, mcp_servers, calls, " +
				"model, driver, command and pass_env cannot be enforced there, so leave them out")
		}
		return nil
	default:
		return fmt.Errorf("container is %q: it must be coder, or left out for this machine", fleet.Shorten(h.Container, 40))
	}
	if d.Driver == "" {
		d.Driver = "claude"
	}
	// A shell would execute the caller's prompt as a script.
	t := fleet.Traits{Drivers: slices.DeleteFunc(slices.Clone(drivers), func(d fleet.Driver) bool { return d.RunsScripts })}
	driver, ok := t.Driver(d.Driver)
	if !ok {
		return fmt.Errorf("driver is %q: it must be one of %s", fleet.Shorten(d.Driver, 40), strings.Join(t.DriverNames(), ", "))
	}
	d.Remembers = driver.Remembers
	switch {
	case driver.NeedsCommand && len(d.Command) == 0:
		return fmt.Errorf("the driver %s needs a command: the program and its arguments", d.Driver)
	case !driver.EnforcesTools && (d.Allow != nil || len(d.Deny) > 0), !driver.Asks && d.Ask != nil, !driver.SupportsMCPServers && len(d.MCPServers) > 0, !driver.ReachesFleet && len(d.Subagents) > 0:
		return fmt.Errorf("the driver %s cannot enforce permissions or provide mcp_servers and calls: leave them out, or use claude", d.Driver)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
