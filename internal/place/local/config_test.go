package local_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	oneProject := func(proj local.Project) []local.Project { proj.Name = "p"; return []local.Project{proj} }
	for want, c := range map[string]local.Config{
		"a place needs Dir and Program":                 {Projects: nil},
		"needs a name":                                  {Projects: []local.Project{{Name: "../p"}}},
		"two projects named":                            {Projects: []local.Project{{Name: "p"}, {Name: "P"}}},
		`no driver "perl"`:                              {Projects: oneProject(local.Project{Driver: "perl"})},
		"needs the option command":                      {Projects: oneProject(local.Project{Driver: "command"})},
		"command[1] is not a valid template":            {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x", "{{.Promt}}"}})},
		"stdin is not a valid template":                 {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x"}, Stdin: "{{"})},
		"output must be text or jsonl":                  {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x"}, Output: "xml"})},
		"fields needs output: jsonl":                    {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x"}, Fields: driver.Fields{Text: "a"}})},
		"needs fields.text":                             {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x"}, Output: "jsonl"})},
		"fields.text: the path":                         {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x"}, Output: "jsonl", Fields: driver.Fields{Text: "a..b"}})},
		`options of the driver "command"`:               {Projects: oneProject(local.Project{Driver: "shell", Stdin: "x"})},
		"branch must be a branch":                       {Projects: oneProject(local.Project{Branch: "--force"})},
		"access names no groups":                        {Projects: oneProject(local.Project{Access: &fleet.ProjectAccess{}})},
		`write oidc:GROUP, or coder:ORGANIZATION/GROUP`: {Projects: oneProject(local.Project{Access: &fleet.ProjectAccess{Groups: []string{"web"}}})},
		"timeout must not be negative":                  {Projects: oneProject(local.Project{Timeout: -1})},
		"role 1 needs a name":                           {Projects: oneProject(local.Project{Roles: []local.Role{{}}})},
		`two roles named "A"`:                           {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a"}, {Name: "A"}}})},
		"2 roles have default set":                      {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a", Default: true}, {Name: "b", Default: true}}})},
		"both prompt and prompt_file":                   {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a", Prompt: "x", PromptFile: "y"}}})},
		"prompt_file of role":                           {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a", PromptFile: "/no/such/file"}}})},
		"the driver shell does not support effort":      {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{Effort: "low"}}}})},
		"the driver codex does not support max_turns":   {Projects: oneProject(local.Project{Driver: "codex", Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{MaxTurns: 1}}}})},
		`role "a": the driver command does not support max_cost_usd: leave it out, or use a driver that does: claude, codex, acp`: {Projects: oneProject(local.Project{Driver: "command", Command: []string{"x"}, Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{MaxCostUSD: 1}}}})},
		`effort is "huge": the driver claude has low, medium, high, xhigh, max`:                                                   {Projects: oneProject(local.Project{Driver: "claude", Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{Effort: "huge"}}}})},
		`effort is "max": the driver codex has minimal, low`:                                                                      {Projects: oneProject(local.Project{Driver: "codex", Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{Effort: "max"}}}})},
		"max_turns is -1: give 1 to":                                                 {Projects: oneProject(local.Project{Driver: "claude", Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{MaxTurns: -1}}}})},
		"delegate.max_depth is 9: give 1 to 8":                                       {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a", Delegate: &fleet.Grant{MaxDepth: 9}}}})},
		`delegate.may has "everything": give`:                                        {Projects: oneProject(local.Project{Roles: []local.Role{{Name: "a", Delegate: &fleet.Grant{May: []fleet.DelegatedAct{"everything"}}}}})},
		"max_cost_usd is NaN: give more than 0":                                      {Projects: oneProject(local.Project{Driver: "claude", Roles: []local.Role{{Name: "a", RoleOptions: driver.RoleOptions{MaxCostUSD: math.NaN()}}}})},
		`permission_mode is "yolo": use one of acceptEdits, auto, bypassPermissions`: {Projects: oneProject(local.Project{Driver: "claude", Roles: []local.Role{{Name: "a", PermissionMode: "yolo"}}})},
		`permission_mode is "default": use one of acceptEdits`:                       {Projects: oneProject(local.Project{Driver: "codex", Roles: []local.Role{{Name: "a", PermissionMode: "default"}}})},
		`repository_permissions is "maybe": use follow or ignore`:                    {Projects: oneProject(local.Project{Driver: "claude", Roles: []local.Role{{Name: "a", RepositoryPermissions: "maybe"}}})},
		"repository_permissions is follow, but the project is not confined":          {Projects: oneProject(local.Project{Driver: "claude", Sandbox: sandbox.None, Roles: []local.Role{{Name: "a", RepositoryPermissions: local.FollowPermissions}}})},
		`pass_env: "FLEET_TOKEN" is reserved for Fleet`:                              {PassEnv: []string{"FLEET_TOKEN"}},
		`pass_env: "A B" is not a valid name`:                                        {Projects: oneProject(local.Project{PassEnv: []string{"A B"}})},
		`env: "CODER_URL" is reserved for Fleet`:                                     {Projects: oneProject(local.Project{Env: map[string]string{"CODER_URL": "x"}})},
		`env: "A*" is not a valid name`:                                              {Projects: oneProject(local.Project{Env: map[string]string{"A*": "x"}})},
	} {
		if want != "a place needs Dir and Program" {
			c.Dir, c.Program = t.TempDir(), "shim"
		}
		_, err := local.New(c)
		require.ErrorContains(t, err, want)
	}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	names := func(projects []local.Project) (all []string) {
		for _, proj := range projects {
			all = append(all, proj.Name)
		}
		return all
	}
	require.Equal(t, []string{"shell"}, names(local.Discover(func(string) (string, error) { return "", errors.New("none") })))
	all := local.Discover(func(p string) (string, error) { return "/usr/bin/" + p, nil })
	require.Equal(t, []string{"shell", "claude", "codex", "gemini", "opencode", "codex-acp", "claude-agent-acp"}, names(all))

	p, err := local.New(local.Config{Dir: t.TempDir(), Program: "shim", Projects: all})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for _, proj := range all {
		roles, err := p.Roles(context.Background(), proj.Name)
		require.NoError(t, err)
		require.Equal(t, []fleet.Role{
			{Name: "coder", DisplayName: "Software Engineer", Description: "Writes code, implements features, fixes bugs", Default: true},
			{Name: "operator", DisplayName: "Operations Engineer", Description: "Manages deployments, monitors systems, handles incidents"},
			{Name: "manager", DisplayName: "Engineering Manager", Description: "Coordinates work, reviews specs, verifies agent alignment"},
		}, roles)
	}
}

// TestYAML checks that projects can be read from YAML without unknown settings, and used in a place.
func TestYAML(t *testing.T) {
	t.Parallel()
	prompt := filepath.Join(t.TempDir(), "role.md")
	require.NoError(t, os.WriteFile(prompt, []byte("Be quick."), 0o600))
	const text = `
- name: web
  display_name: Website
  repository: ~/src/web
  branch: main
  driver: claude
  env: {MODE: test}
  pass_env: [NPM_TOKEN]
  timeout: 30m
  max_cost_usd: 0.75
  roles:
  - name: cheap
  - name: coder
    default: true
    prompt: Write code.
    model: opus
    effort: high
    max_turns: 20
    max_cost_usd: 2.5
    allowed_tools: [Bash, Edit]
    permission_mode: acceptEdits
    mcp_servers:
      tickets: {type: http, url: "https://example.com/mcp", headers: {Authorization: Bearer x}}
- name: aider
  driver: command
  command: [aider, --message, "{{.Brief}}"]
  output: jsonl
  fields: {text: a.b, delta: true}
`
	var projects []local.Project
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(text), &projects, yaml.Strict()))
	require.Equal(t, "https://example.com/mcp", projects[0].Roles[1].MCPServers["tickets"].URL)
	require.Equal(t, []string{"Bash", "Edit"}, projects[0].Roles[1].AllowedTools)
	require.Equal(t, "30m0s", projects[0].Timeout.String())
	require.Equal(t, driver.Fields{Text: "a.b", Delta: true}, projects[1].Fields)
	p, err := local.New(local.Config{Dir: t.TempDir(), Program: "shim", Projects: projects})
	require.NoError(t, err)
	require.Equal(t, []fleet.Micros{2_500_000, 750_000, 2_500_000, 0, 0}, []fleet.Micros{
		p.MaxCost("web", "coder"), p.MaxCost("web", "Cheap"), p.MaxCost("web", ""), p.MaxCost("aider", "coder"), p.MaxCost("nothing", "coder"),
	})
	require.NoError(t, p.Close())
}
