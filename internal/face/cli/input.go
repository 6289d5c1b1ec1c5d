package cli

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// input is the value of a field on the command line: a flag or an argument.
type input struct {
	*field
	name  string // of the flag
	given []string
	set   bool
}

// String returns the given value.
func (in *input) String() string { return strings.Join(in.given, ",") }

// Type is the name of the value's type in the help.
func (in *input) Type() string { return in.placeholder() }

// Set adds a value. It returns an error if the field can never have that value.
func (in *input) Set(value string) error {
	values := []string{value}
	if in.desc.IsList() {
		var err error
		if values, err = commas(value); err != nil {
			return err
		}
	}
	if _, err := in.parse(value); err != nil {
		return err
	}
	if !in.many() {
		in.given = nil
	}
	in.given, in.set = append(in.given, values...), true
	return nil
}

// parse converts a given value to the field's type. It returns a text unchanged.
func (in *input) parse(value string) (v protoreflect.Value, err error) {
	switch in.form {
	case asBool:
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return v, fmt.Errorf("give true or false")
		}
		return protoreflect.ValueOfBool(yes), nil
	case asOneOf:
		d := in.desc.Enum().Values().ByName(protoreflect.Name(value))
		if d == nil || d.Number() == 0 {
			return v, fmt.Errorf("give %s", orList(in.values()))
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

// commas splits a list at commas. A value that contains a comma is put in double quotes.
func commas(list string) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	r := csv.NewReader(strings.NewReader(list))
	r.TrimLeadingSpace = true
	values, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("separate values with commas: %w", err)
	}
	return values, nil
}
