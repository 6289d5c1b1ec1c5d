package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// input is a field of the request and the values for it from the command line. It is a pflag.Value.
type input struct {
	*field
	name  string   // of the flag
	texts []string // the values as they were written; those of a list are split at commas
	isSet bool     // a flag or an argument was given; also true for an empty list, which has no texts
}

func (in *input) String() string { return strings.Join(in.texts, ",") }

func (in *input) Type() string { return in.valuePlaceholder() }

// Set adds a value. It returns an error if the field can never have that value.
func (in *input) Set(value string) error {
	values := []string{value}
	if in.desc.IsList() {
		var err error
		if values, err = splitCommas(value); err != nil {
			return err
		}
	}
	if _, err := in.parse(value); err != nil {
		return err
	}
	if !in.isRepeatable() {
		in.texts = nil
	}
	in.texts, in.isSet = append(in.texts, values...), true
	return nil
}

// parse converts a given value to the field's type. It returns the value unchanged if the type is a text or an object.
func (in *input) parse(value string) (v protoreflect.Value, err error) {
	switch in.notation {
	case asBool:
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return v, fmt.Errorf("give true or false")
		}
		return protoreflect.ValueOfBool(yes), nil
	case asEnum:
		d := in.desc.Enum().Values().ByName(protoreflect.Name(value))
		if d == nil || d.Number() == 0 {
			return v, fmt.Errorf("give %s", orList(in.enumValues()))
		}
		return protoreflect.ValueOfEnum(d.Number()), nil
	case asNumber:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return v, fmt.Errorf("give a whole number")
		}
		return protoreflect.ValueOfInt32(int32(n)), nil
	}
	return protoreflect.ValueOfString(value), nil
}

// splitCommas splits a list at commas and line breaks. Double quotes around a value keep those in it.
func splitCommas(list string) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	r := csv.NewReader(strings.NewReader(list))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, -1
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("separate values with commas: %w", err)
	}
	return slices.Concat(lines...), nil
}

// unsetInputs returns the required inputs that have no value yet, in order. Before fillInputs is called, these are the inputs to fill with
// arguments.
func (c *toolsetCommand) unsetInputs() (list []*input) {
	for _, in := range c.inputs {
		if in.required && !in.isSet {
			list = append(list, in)
		}
	}
	return list
}

// checkArguments returns an error if arguments are missing or if there are too many.
func (c *toolsetCommand) checkArguments(cmd *cobra.Command, args []string) error {
	unset := c.unsetInputs()
	switch {
	case len(args) < len(unset):
		var names []string
		for _, in := range unset[len(args):] {
			names = append(names, in.argumentName())
		}
		verb := "is"
		if len(names) > 1 {
			verb = "are"
		}
		return usagef("%s %s missing: %s", andList(names), verb, cmd.UseLine())
	case len(args) > len(unset) && (len(unset) == 0 || !unset[len(unset)-1].isRepeatable()):
		return newTooManyArgumentsError(args[len(unset)], len(unset) > 0 || len(c.requiredFields()) > 0)
	}
	return nil
}

// fillInputs assigns the arguments to the unset inputs. If the last of these inputs is repeatable, it gets all remaining arguments. The
// arguments must have passed checkArguments.
func (c *toolsetCommand) fillInputs(args []string) error {
	unset := c.unsetInputs()
	for i, in := range unset {
		values := args[i : i+1]
		if in.isRepeatable() && i == len(unset)-1 {
			values = args[i:]
		}
		for _, arg := range values {
			if err := in.Set(arg); err != nil {
				return usagef("the %s is %q: %v", in.nameInSentence(), arg, err)
			}
		}
	}
	return nil
}
