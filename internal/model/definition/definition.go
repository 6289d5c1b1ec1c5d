// Package definition finds, pulls, reads and checks the definitions of agents on models, in the format of docker/cagent.
//
// It uses only the library's configuration format, so it needs no cgo. Package app creates the Catalog. The place of the
// agents and package model/run read definitions.
package definition

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/config/latest"

	"fleet/internal/fleet"
)

// MaxDocument is the maximum size of a definition, in bytes.
const MaxDocument = 256 << 10

// rootAgent is the name of the agent with which the library starts.
const rootAgent = "root"

// ParsedDefinition is a definition that was parsed.
type ParsedDefinition struct {
	Config *latest.Config // as the library reads the document
	Agents []string       // the default agent, followed by the others by name
	// Warnings name the parts of the document that have no effect, and a version that is newer than the library's.
	Warnings []string
}

// Parse parses a definition. Its errors are shown to the author of the document.
func Parse(document []byte) (*ParsedDefinition, error) {
	if err := checkParseCost(document); err != nil {
		return nil, err
	}
	c, warnings, err := load(document)
	if err != nil {
		return nil, fmt.Errorf("not a cagent definition: %s", plainText(err.Error()))
	}
	d := &ParsedDefinition{Config: c, Warnings: warnings, Agents: slices.Sorted(maps.Keys(c.Agents))}
	if len(d.Agents) == 0 {
		return nil, fmt.Errorf("not a cagent definition: it has no agents")
	}
	if i := slices.Index(d.Agents, rootAgent); i > 0 {
		d.Agents = append([]string{rootAgent}, slices.Delete(d.Agents, i, i+1)...)
	}
	for _, name := range d.Agents {
		a := c.Agents[name]
		for _, other := range a.Handoffs {
			if _, ok := c.Agents[other]; !ok {
				return nil, fmt.Errorf("agent %q hands off to %q, which does not exist", name, other)
			}
		}
		for _, t := range a.Toolsets {
			for _, tool := range t.Shell {
				for arg, schema := range tool.Args {
					m, _ := schema.(map[string]any)
					if _, ok := m["description"].(string); !ok {
						return nil, fmt.Errorf("agent %q has a script with the argument %q, which needs a description", name, arg)
					}
				}
			}
		}
	}
	return d, nil
}

// FromConfig returns the definition in an agent's configuration. If the configuration has none, it returns a minimal one. It returns an error
// if the definition does not have the agent of the configuration.
func FromConfig(c *fleet.AgentConfig) (*ParsedDefinition, error) {
	document := c.Document
	if document == "" {
		document = "agents:\n  root:\n    model: auto\n"
	}
	d, err := Parse([]byte(document))
	if err != nil {
		return nil, err
	}
	_, err = d.AgentName(c.Agent)
	return d, err
}

// AgentName returns the name of the agent, or of the default agent if the name is empty. It returns an error if the
// definition has no such agent.
func (d *ParsedDefinition) AgentName(name string) (string, error) {
	if name == "" {
		return d.Agents[0], nil
	}
	if !slices.Contains(d.Agents, name) {
		return "", fmt.Errorf("the definition has no agent %q: it has %s", name, strings.Join(d.Agents, ", "))
	}
	return name, nil
}

// description returns the description of the default agent, in one line.
func (d *ParsedDefinition) description() string {
	return strings.Join(strings.Fields(d.Config.Agents[d.Agents[0]].Description), " ")
}

// escapePattern matches the escape sequences that color text.
var escapePattern = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plainText returns an error text of the library without colors, shortened to 2000 characters.
func plainText(s string) string {
	return fleet.Shorten(strings.TrimSpace(escapePattern.ReplaceAllString(s, "")), 2000)
}
