package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// enumFlag is a flag that takes the values of an enum.
type enumFlag[E ~int32] struct {
	to    *E
	names map[int32]string
}

// addEnum adds a flag that takes the values of an enum, with their completion.
func addEnum[E ~int32](cmd *cobra.Command, to *E, names map[int32]string, name, usage string) {
	f := enumFlag[E]{to, names}
	cmd.Flags().Var(f, name, usage)
	complete(cmd, name, cobra.FixedCompletions(f.choices(), cobra.ShellCompDirectiveNoFileComp))
}

// choices are the values of the enum, without the unspecified one.
func (f enumFlag[E]) choices() (list []string) {
	for n := int32(1); f.names[n] != ""; n++ {
		list = append(list, f.names[n])
	}
	return list
}

// String returns the name of the value, or "" if no value is set.
func (f enumFlag[E]) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return f.names[int32(*f.to)]
}

// Type is the name of the value's type in the help.
func (f enumFlag[E]) Type() string { return "VALUE" }

// Set sets the value by its name.
func (f enumFlag[E]) Set(value string) error {
	for n, name := range f.names {
		if n != 0 && name == value {
			*f.to = E(n)
			return nil
		}
	}
	return fmt.Errorf("give %s", orList(f.choices()))
}
