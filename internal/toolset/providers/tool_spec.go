package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// MaxToolSpec is the maximum size of a tool's specification, in bytes of JSON.
const MaxToolSpec = 64 << 10

const (
	maxToolDescription = 4 << 10 // maximum size of a description, in bytes
	maxCommand         = 64      // maximum number of elements of a command
)

// toolNamePattern matches tool names that every model accepts. It is also the pattern of the names of MCP servers.
var toolNamePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// reservedTools are the names of tools that Fleet itself gives to agents. Callers cannot register them.
var reservedTools = []string{"agent_complete", "append_payload", "run_subagent"}

// httpMethods are the HTTP methods that a tool can use: those with a body. The empty method means POST.
var httpMethods = []string{"", "POST", "PUT", "PATCH"}

// toolSpec is a tool as callers write it. Exactly one of HTTP, MCP and Command must be set: it implements the tool.
type toolSpec struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	HTTP        *fleet.HTTPTool `json:"http"`
	MCP         *fleet.MCPTool  `json:"mcp"` // an empty name of its server is the name of the tool
	Command     []string        `json:"command"`
}

// invalidSpec returns the error for an invalid part of a tool's specification. The text of the error begins with the name
// of the part; an empty part means the whole specification.
func invalidSpec(part, format string, args ...any) error {
	field := "tool_spec"
	if part != "" {
		field += "." + part
	}
	return fleet.InvalidField(field, field+" "+format, args...)
}

// parseTool returns the tool with the name and the specification. It returns INVALID_ARGUMENT if one of them is invalid.
// Whether the caller may register the tool is up to checkVariables and checkAllowed.
func parseTool(name string, raw []byte) (fleet.Tool, error) {
	t := fleet.Tool{Name: name}
	if !toolNamePattern.MatchString(name) {
		return t, fleet.InvalidField("tool_name", "tool_name is %q: use a letter, then up to 63 letters, digits, _ and -", shorten(name))
	}
	if slices.Contains(reservedTools, name) {
		return t, fleet.InvalidField("tool_name", "tool_name is %q, which is the name of a tool that Fleet gives to agents: choose another name", name)
	}
	if len(raw) == 0 {
		return t, invalidSpec("", "is required: give description, parameters, and one of http, mcp and command")
	}
	if len(raw) > MaxToolSpec {
		return t, invalidSpec("", "has %d bytes, and the limit is %d: shorten it", len(raw), MaxToolSpec)
	}
	var s toolSpec
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return t, invalidSpec("", "cannot be used: %s: give description, parameters, and one of http, mcp and command", decodeErrorText(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return t, invalidSpec("", "is more than one JSON value")
	}
	t.Description = strings.TrimSpace(s.Description)
	if t.Description == "" || len(t.Description) > maxToolDescription || checkText("", t.Description) != nil {
		return t, invalidSpec("description", "is missing, invalid or longer than %d bytes: say what the tool does and when to use it", maxToolDescription)
	}
	var err error
	if t.Parameters, err = checkParameters(s.Parameters); err != nil {
		return t, err
	}
	return t, s.implement(&t)
}

// implement checks the part of the specification that implements the tool, and sets it in t.
func (s *toolSpec) implement(t *fleet.Tool) error {
	count := 0
	for _, set := range []bool{s.HTTP != nil, s.MCP != nil, s.Command != nil} {
		if set {
			count++
		}
	}
	if count != 1 {
		return invalidSpec("", "has %d of http, mcp and command: give exactly one of them", count)
	}
	switch {
	case s.HTTP != nil:
		t.HTTP = s.HTTP
		t.HTTP.Method = strings.ToUpper(t.HTTP.Method)
		if !slices.Contains(httpMethods, t.HTTP.Method) {
			return invalidSpec("http.method", "is %q: it must be POST, PUT or PATCH, because the arguments are sent in the body", shorten(t.HTTP.Method))
		}
		if err := checkURL("http.url", t.HTTP.URL); err != nil {
			return err
		}
		return checkHeaders("http.headers", t.HTTP.Headers)
	case s.MCP != nil:
		t.MCP = s.MCP
		t.MCP.Server.Name = cmp.Or(t.MCP.Server.Name, t.Name)
		return checkMCPServer(t.MCP)
	}
	t.Command = s.Command
	return checkCommand("command", t.Command)
}

func checkMCPServer(m *fleet.MCPTool) error {
	s := &m.Server
	switch {
	case !toolNamePattern.MatchString(s.Name):
		return invalidSpec("mcp.server.name", "is %q: use a letter, then up to 63 letters, digits, _ and -", shorten(s.Name))
	case len(m.Tool) > 200 || checkText("", m.Tool) != nil:
		return invalidSpec("mcp.tool", "is not a valid name of a tool")
	case (s.Command == "") == (s.URL == ""):
		return invalidSpec("mcp.server", "has both command and url, or neither: give exactly one of them")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0):
		return invalidSpec("mcp.server", "has a url, and also args or env, which are only for a command: leave them out")
	case s.URL != "":
		if err := checkURL("mcp.server.url", s.URL); err != nil {
			return err
		}
		return checkHeaders("mcp.server.headers", s.Headers)
	case len(s.Headers) > 0:
		return invalidSpec("mcp.server", "has a command, and also headers, which are only for a url: leave them out")
	}
	if err := checkCommand("mcp.server.command", append([]string{s.Command}, s.Args...)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !variablePattern.MatchString(name) || fleet.IsReservedVariable(name) {
			return invalidSpec("mcp.server.env", "has %q, which is not a valid name of a variable for a tool", shorten(name))
		}
		if err := checkValue("mcp.server.env", name, s.Env[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkCommand(part string, argv []string) error {
	if len(argv) == 0 || strings.TrimSpace(argv[0]) == "" || len(argv) > maxCommand {
		return invalidSpec(part, "must be a list of 1 to %d texts: the program and its arguments", maxCommand)
	}
	for _, a := range argv {
		if checkText("", a) != nil {
			return invalidSpec(part, "contains a zero byte: remove the zero byte")
		}
	}
	return nil
}

func checkURL(part, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return invalidSpec(part, "is not an http or https URL: write it like https://tools.example.com/weather")
	case u.User != nil:
		return invalidSpec(part, "contains a user or a password: put the secret into the server's environment, and name it in a header as ${NAME}")
	case u.Fragment != "":
		return invalidSpec(part, "has a fragment, which is never sent to a server: leave it out")
	case strings.Contains(text, "${"):
		return invalidSpec(part, "names a variable, which is allowed only in headers: an address would be logged with the value")
	}
	return nil
}

// reservedHeaders are headers that tools cannot set, because they belong to the connection or Fleet sets them.
var reservedHeaders = []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Expect"}

func checkHeaders(part string, headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
			return invalidSpec(part, "has %q, which is not a valid name of a header", shorten(name))
		}
		if slices.Contains(reservedHeaders, textproto.CanonicalMIMEHeaderKey(name)) {
			return invalidSpec(part, "has %s, which Fleet sets itself: leave it out", textproto.CanonicalMIMEHeaderKey(name))
		}
		if err := checkValue(part, name, headers[name]); err != nil {
			return err
		}
	}
	return nil
}

// secretNamePattern matches names of headers and variables that hold secrets.
var secretNamePattern = regexp.MustCompile(`(?i)auth|cookie|token|secret|passw|credential|(^|[^a-z])key|api-?key|_key`)

// checkValue checks the value of a header or variable. If the name is one of a secret, the value must name a variable of
// the server's environment: the specification is stored in the database, where others can read it.
func checkValue(part, name, value string) error {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) || len(value) > 4<<10 || checkText("", value) != nil {
		return invalidSpec(part, "has a value of %s that is not a single line of text", name)
	}
	variables, err := variablesIn(value)
	if err != nil {
		return invalidSpec(part, "of %s: %s", name, fleet.PublicMessage(err))
	}
	for _, v := range variables {
		if fleet.IsReservedVariable(v) {
			return invalidSpec(part, "of %s names %s, a variable of Fleet itself that tools never get: use another variable", name, v)
		}
	}
	if len(variables) == 0 && value != "" && secretNamePattern.MatchString(name) {
		return invalidSpec(part, "contains the value of %s, which looks like a secret: put it into the server's environment, and write ${NAME} here", name)
	}
	return nil
}

// variablesIn returns the variables that a text names as ${NAME}.
func variablesIn(text string) (names []string, err error) {
	_, err = fleet.Expand(text, func(name string) (string, bool) {
		names = append(names, name)
		return "", true
	})
	return names, err
}

// variablesOf returns the variables that the tool names as ${NAME}, sorted and without duplicates.
func variablesOf(t *fleet.Tool) (names []string) {
	var values []string
	switch {
	case t.HTTP != nil:
		values = slices.Collect(maps.Values(t.HTTP.Headers))
	case t.MCP != nil:
		values = append(slices.Collect(maps.Values(t.MCP.Server.Headers)), slices.Collect(maps.Values(t.MCP.Server.Env))...)
	}
	for _, v := range values {
		named, _ := variablesIn(v) // checkValue has already checked v
		names = append(names, named...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// toolURL returns the URL of the tool; "" if the tool is a program.
func toolURL(t *fleet.Tool) string {
	switch {
	case t.HTTP != nil:
		return t.HTTP.URL
	case t.MCP != nil:
		return t.MCP.Server.URL
	}
	return ""
}

// decodeErrorText returns the text of a JSON decoder's error without names of Go packages and types.
func decodeErrorText(err error) string {
	return oneLine(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "json: "), "Go struct field toolSpec.", ""))
}
