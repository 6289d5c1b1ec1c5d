package driver

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// commandDriver runs any program with arguments from a template.
type commandDriver struct {
	argv    []*template.Template
	stdin   *template.Template // nil means an empty input
	options Options
}

// TemplateData are the values for templates of the command driver.
type TemplateData struct {
	Prompt     string // the task
	Role       string // name of the role
	RolePrompt string // prompt of the role
	Spec       string // specification of the agent
	Brief      string // role prompt, specification and task in one text
	Agent      string // name of the agent
	Project    string // name of the project
	TaskID     string
	Model      string // model of the role
	PromptFile string // path of a file that contains Prompt
	SpecFile   string // path of a file that contains Spec
	RoleFile   string // path of a file that contains RolePrompt
	BriefFile  string // path of a file that contains Brief
}

func newCommandDriver(o Options) (*commandDriver, error) {
	c := &commandDriver{options: o}
	if len(o.Command) == 0 || strings.TrimSpace(o.Command[0]) == "" {
		return nil, errors.New("the driver \"command\" needs the option command: the program and its arguments")
	}
	for i, a := range o.Command {
		t, err := parseTemplate(fmt.Sprintf("command[%d]", i), a)
		if err != nil {
			return nil, err
		}
		c.argv = append(c.argv, t)
	}
	if o.Stdin != "" {
		t, err := parseTemplate("stdin", o.Stdin)
		if err != nil {
			return nil, err
		}
		c.stdin = t
	}
	switch o.Output {
	case "", "text":
		if o.Fields != (Fields{}) {
			return nil, errors.New("the option fields needs output: jsonl")
		}
	case "jsonl":
		if _, err := newJSONParser(o.Fields); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("output must be text or jsonl, not %q", o.Output)
	}
	return c, nil
}

// parseTemplate parses the template. It also executes the template once, so that an unknown name is reported when the server
// starts, and not when a task starts.
func parseTemplate(name, text string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid template: %w", name, err)
	}
	if err := t.Execute(&strings.Builder{}, TemplateData{}); err != nil {
		return nil, fmt.Errorf("%s is not a valid template: %w", name, err)
	}
	return t, nil
}

func (c *commandDriver) Program() string { return c.options.Command[0] }

func (c *commandDriver) Keys() []string { return c.options.Keys }

func (c *commandDriver) Command(j Job) (Command, error) {
	data := TemplateData{
		Prompt: j.Prompt, Role: j.Role.Name, RolePrompt: j.Role.Prompt, Spec: j.Spec, Brief: fullInstructions(j), Agent: j.Agent,
		Project: j.Project, TaskID: j.TaskID, Model: j.Role.Model, PromptFile: j.path(PromptFile),
		SpecFile: j.path(SpecFile), RoleFile: j.path(RoleFile), BriefFile: j.path(BriefFile),
	}
	out := Command{Format: Format{Kind: "text"}}
	if c.options.Output == "jsonl" {
		out.Format, out.SplitStderr = Format{Kind: "jsonl", Fields: c.options.Fields}, true
	}
	for _, t := range c.argv {
		var b strings.Builder
		if err := t.Execute(&b, data); err != nil {
			return Command{}, err
		}
		out.Argv = append(out.Argv, b.String())
	}
	if c.stdin != nil {
		var b strings.Builder
		if err := c.stdin.Execute(&b, data); err != nil {
			return Command{}, err
		}
		out.StdinFile, out.Files = "stdin", []File{{Name: "stdin", Data: b.String()}}
	}
	return out, checkArguments(out.Argv,
		"shorten the task, or let the project's command read it from {{.PromptFile}} or its stdin")
}
