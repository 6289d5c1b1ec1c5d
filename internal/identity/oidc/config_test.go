package oidc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"":                                    func(*Config) {},
		"oidc.issuer is not set":              func(c *Config) { c.Issuer = "" },
		"write it like https://":              func(c *Config) { c.Issuer = "login.example.com" },
		"needs https":                         func(c *Config) { c.Issuer = "http://login.example.com" },
		"oidc.client_id is not set":           func(c *Config) { c.ClientID = "" },
		"oidc.scopes does not contain openid": func(c *Config) { c.Scopes = []string{"email"} },
		`oidc.default_role is "root"`:         func(c *Config) { c.DefaultRole = "root" },
		`oidc.roles has "owner" for "dev"`:    func(c *Config) { c.Roles = map[string]string{"dev": "owner"} },
		"nobody would have access":            func(c *Config) { c.Roles = nil },
	} {
		c := Config{Issuer: "https://login.example.com", ClientID: "fleet", Roles: map[string]string{"dev": "user"}}
		change(&c)
		if err := c.Validate(); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
