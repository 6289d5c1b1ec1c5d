package cli

import "github.com/spf13/cobra"

// arguments returns the arguments of the usage line.
func (m *method) arguments() (names []string) {
	required := m.required()
	for i, f := range required {
		name := f.argument()
		if f.many() && i == len(required)-1 {
			name += "..."
		}
		names = append(names, name)
	}
	return names
}

func (m *method) required() (list []*field) {
	for _, f := range m.fields {
		if f.required {
			list = append(list, f)
		}
	}
	return list
}

// open returns, in order, the required inputs that no flag has set. The arguments set these inputs.
func (c *call) open() (list []*input) {
	for _, in := range c.inputs {
		if in.required && !in.set {
			list = append(list, in)
		}
	}
	return list
}

// checkArguments reports missing and surplus arguments.
func (c *call) checkArguments(cmd *cobra.Command, args []string) error {
	open := c.open()
	switch {
	case len(args) < len(open):
		var names []string
		for _, in := range open[len(args):] {
			names = append(names, in.argument())
		}
		verb := "is"
		if len(names) > 1 {
			verb = "are"
		}
		return usagef("%s %s missing: %s", andList(names), verb, cmd.UseLine())
	case len(args) > len(open) && (len(open) == 0 || !open[len(open)-1].many()):
		return tooMany(args[len(open)], len(open) > 0 || len(c.required()) > 0)
	}
	return nil
}

// fill assigns the arguments to the open inputs. If the last input takes several values, it gets all remaining
// arguments.
func (c *call) fill(args []string) error {
	open := c.open()
	for i, in := range open {
		mine := args[i : i+1]
		if in.many() && i == len(open)-1 {
			mine = args[i:]
		}
		for _, arg := range mine {
			if err := in.Set(arg); err != nil {
				return usagef("the %s is %q: %v", in.plain(), arg, err)
			}
		}
	}
	return nil
}
