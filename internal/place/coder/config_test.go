package coder_test

import (
	"context"
	"testing"

	"github.com/coder/coder/v2/codersdk"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

func testToken(context.Context) (string, error) { return "a-token", nil }

func TestConfigFromYAML(t *testing.T) {
	t.Parallel()
	var c coder.Config
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(`
url: https://coder.example.com
owner: principal
role_parameter: agent_kind
prefix: ""
poll_interval: 5s
fleet_url: https://fleet.example.com/
delegate: {Manager: {max_total: 3}}
projects:
  Setup: setup-devcontainer
  DataOne:
    template: dataone
    spec_parameter: AI Prompt
    app: ccw
    prefix: bot-
    access: {groups: ["oidc:data"]}
organizations:
  platform: {access: {groups: ["oidc:ops", "coder:platform/sre"]}}
access: {groups: ["oidc:staff"]}
metadata:
  fleet_mcp_pull_request_url: pr
`), &c, yaml.Strict()))
	require.Equal(t, coder.OwnerPrincipal, c.Owner)
	require.Equal(t, "agent_kind", c.RoleParameter)
	require.Empty(t, *c.Prefix)
	require.Equal(t, "setup-devcontainer", c.Projects["Setup"].Template)
	require.Equal(t, "dataone", c.Projects["DataOne"].Template)
	require.Equal(t, "AI Prompt", c.Projects["DataOne"].SpecParameter)
	require.Equal(t, "bot-", *c.Projects["DataOne"].Prefix)
	require.Equal(t, []string{"oidc:ops", "coder:platform/sre"}, c.Organizations["platform"].Access.Groups)
	c.Token = testToken
	p, err := coder.New(c)
	require.NoError(t, err)
	require.False(t, p.Traits().UniqueNames, "with coder.owner principal, names are unique only for each owner")
	for _, project := range []struct{ organization, template, group string }{
		{"platform", "dataone", "oidc:data"}, {"Platform", "setup-devcontainer", "oidc:ops"}, {"other", "setup-devcontainer", "oidc:staff"}, {"platform", "unlisted", "oidc:ops"},
	} {
		require.Equal(t, project.group, p.Groups(codersdk.Template{Name: project.template, OrganizationName: project.organization})[0], project)
	}
	require.Equal(t, "https://fleet.example.com/mcp", p.Traits().FleetURL)
	require.Equal(t, 3, p.Grant("Setup", "manager").MaxTotal)
	require.Equal(t, []string{"DataOne"}, p.Grant("DataOne", "manager").Projects, "a project without its own setting must have the common one")
	require.Nil(t, p.Grant("Setup", "coder"))
	require.NoError(t, p.Close())
	c.FleetURL = ""
	_, err = coder.New(c)
	require.ErrorContains(t, err, "coder.delegate needs coder.fleet_url")
	c.FleetURL = "fleet.example.com"
	_, err = coder.New(c)
	require.ErrorContains(t, err, "coder.fleet_url is \"fleet.example.com\"")
	require.Error(t, yaml.UnmarshalWithOptions([]byte("projects: {Setup: {tempalte: x}}"), &c, yaml.Strict()))
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config coder.Config
		words  string
	}{
		"no address":             {coder.Config{Token: testToken}, "CODER_URL"},
		"no scheme":              {coder.Config{Token: testToken, URL: "coder.example.com"}, "https://coder.example.com"},
		"a password":             {coder.Config{Token: testToken, URL: "https://me:secret@coder.example.com"}, "leave out"},
		"no token":               {coder.Config{URL: "https://coder.example.com"}, "CODER_SESSION_TOKEN"},
		"another owner":          {coder.Config{Token: testToken, URL: "https://c.example.com", Owner: "me"}, "self or principal"},
		"a prefix":               {coder.Config{Token: testToken, URL: "https://c.example.com", Settings: coder.Settings{Prefix: new("-x--")}}, "prefix"},
		"a template named twice": {coder.Config{Token: testToken, URL: "https://c.example.com", Projects: map[string]coder.Project{"a": {Template: "t"}, "b": {Template: "T"}}}, "same template"},
		"access without groups":  {coder.Config{Token: testToken, URL: "https://c.example.com", Organizations: map[string]coder.Organization{"dev": {Access: &fleet.ProjectAccess{}}}}, "coder.organizations.dev: access names no groups"},
		"a negative interval":    {coder.Config{Token: testToken, URL: "https://c.example.com", PollInterval: -1}, "poll_interval"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := coder.New(c.config)
			require.ErrorContains(t, err, c.words)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}
