package cli

import (
	"encoding/csv"
	"fmt"
	"math"
	"slices"
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
	if in.desc.IsList() && in.form != asObject && in.form != asJSON {
		var err error
		if values, err = commas(value); err != nil {
			return err
		}
	}
	for _, v := range values {
		if err := in.check(v); err != nil {
			return err
		}
	}
	if !in.many() {
		in.given = nil
	}
	in.given, in.set = append(in.given, values...), true
	return nil
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

func (in *input) check(value string) error {
	switch in.form {
	case asBool:
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("give true or false")
		}
	case asOneOf:
		if !slices.Contains(in.values(), value) {
			return fmt.Errorf("give %s", orList(in.values()))
		}
	case asNumber:
		return checkNumber(in.desc, value)
	}
	return nil
}

func checkNumber(d protoreflect.FieldDescriptor, value string) (err error) {
	if m := d.Message(); m != nil {
		d = m.Fields().ByName("value")
	}
	what := "a whole number"
	switch d.Kind() {
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		what = "a number"
		var n float64
		if n, err = strconv.ParseFloat(value, 64); math.IsNaN(n) || math.IsInf(n, 0) {
			err = strconv.ErrRange
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		what = "a whole number from 0 on"
		_, err = strconv.ParseUint(value, 10, 32)
	default:
		_, err = strconv.ParseInt(value, 10, 32)
	}
	if err != nil {
		return fmt.Errorf("give %s", what)
	}
	return nil
}
