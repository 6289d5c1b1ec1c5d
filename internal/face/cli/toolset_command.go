package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// outputFileFlag is the flag of downloads that names the file to write.
const outputFileFlag = "output-file"

// newToolset returns the command of a toolset, with a subcommand for each method.
func (p *program) newToolset(t *toolset) *cobra.Command {
	commands := p.commandsFor(t)
	cmd := Group(&cobra.Command{
		Use:   t.name,
		Short: upperFirst(commands.formatDescription(firstSentence(t.about), 0)),
		Long: upperFirst(commands.formatDescription(t.about, helpWidth)) + "\n\n" + wrapText(fmt.Sprintf(
			"AI clients call the same methods as tools at /mcp/%s, and programs as the service %s over gRPC and REST.", t.name, t.service.Name()), helpWidth),
	})
	if t.alias != "" {
		cmd.Aliases = []string{t.alias}
	}
	var examples []string
	for _, m := range t.methods {
		c := p.newToolsetCommand(m)
		first, _, _ := strings.Cut(c.Example, "\n")
		examples = append(examples, first)
		cmd.AddCommand(c)
	}
	cmd.Example = strings.Join(examples[:min(len(examples), 3)], "\n")
	return cmd
}

// toolsetCommand is the command that calls a method of a toolset.
type toolsetCommand struct {
	*method
	inputs []*input // the values of the flags and arguments, one for each field of the request
	file   string   // the file to which a download is written; empty means standard output
}

// newToolsetCommand returns the command of a method.
func (p *program) newToolsetCommand(m *method) *cobra.Command {
	c, commands := &toolsetCommand{method: m}, p.commandsFor(m.toolset)
	cmd := &cobra.Command{
		Use:   strings.Join(append([]string{m.command}, c.arguments()...), " "),
		Short: commands.formatDescription(m.summary, 0),
	}
	if m.longName() != m.command {
		cmd.Aliases = []string{m.longName()}
	}
	for _, f := range m.fields {
		in := &input{field: f, name: p.flagNameFor(m, f)}
		c.inputs = append(c.inputs, in)
		flag := cmd.Flags().VarPF(in, in.name, "", commands.formatDescription(f.usage(), 90))
		if f.notation == asBool {
			flag.NoOptDefVal = "true"
		}
		setCompletion(cmd, in.name, c.completionFunc(p, f))
	}
	if m.isDownload() {
		cmd.Flags().StringVar(&c.file, outputFileFlag, "", "write to `FILE` instead of standard output")
	}
	cmd.Long = c.longHelp(commands)
	cmd.Example = c.example()
	cmd.Args = c.checkArguments
	cmd.ValidArgsFunction = c.inputCompletion(p)
	cmd.RunE = p.action(func(ctx context.Context, s *session, args []string) error {
		if err := c.run(ctx, s, args); err != nil {
			return p.explainIn(ctx, err, s.target, m.toolset)
		}
		return nil
	})
	return cmd
}

// flagNameFor returns the name of the field's flag. A field that has the name of a common flag gets the command's name as
// a prefix, for example --execute-timeout.
func (p *program) flagNameFor(m *method, f *field) string {
	if name := f.flagName(); p.root.PersistentFlags().Lookup(name) != nil || slices.Contains([]string{"help", "version", outputFileFlag}, name) {
		return m.command + "-" + name
	}
	return f.flagName()
}

func (c *toolsetCommand) run(ctx context.Context, s *session, args []string) error {
	if err := c.fillInputs(args); err != nil {
		return err
	}
	req, err := s.newRequest(c.method, c.inputs)
	if err != nil {
		return err
	}
	switch {
	case c.isDownload():
		return s.download(ctx, c.method, req, c.file)
	case c.isTurn():
		return s.runTurn(ctx, c.method, req)
	}
	resp := c.responseType.New().Interface()
	err = s.withProgress(c.method, func() error { return s.conn.Invoke(ctx, c.path(), req, resp) })
	if err != nil {
		return err
	}
	return s.printResponse(resp, portionOf(c.desc))
}

// withProgress calls do. If the method has side effects, it shows progress on a terminal meanwhile.
func (s *session) withProgress(m *method, do func() error) error {
	if m.isReadOnly() {
		return do()
	}
	p := s.startProgress(m.toolset.name+" "+m.command, s.deps.Now())
	defer p.stop()
	return do()
}
