package app

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// setting is a field of Config that a flag or an environment variable sets: a scalar or a list of texts. It is a pflag.Value.
type setting struct {
	key, help string
	field     reflect.Value
	text      string // the text that Set received
}

// settings returns the settings of the configuration, in the order of the fields. The key of a setting in a section begins
// with the section and a dot, such as tls.cert.
func settings(c *Config) []*setting { return settingsOf(reflect.ValueOf(c).Elem(), "") }

func settingsOf(v reflect.Value, section string) (out []*setting) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if help := f.Tag.Get("help"); help != "" {
			out = append(out, &setting{key: section + key, help: help, field: v.Field(i)})
		} else if f.Type.Kind() == reflect.Struct && key != "" {
			out = append(out, settingsOf(v.Field(i), section+key+".")...)
		}
	}
	return out
}

var separators = strings.NewReplacer("_", "-", ".", "-")

func (s *setting) flag() string { return separators.Replace(s.key) }

func (s *setting) env() string {
	return "FLEET_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// String returns the value in the form that Set accepts.
func (s *setting) String() string {
	if s == nil || !s.field.IsValid() {
		return ""
	}
	if list, ok := s.list(); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(s.field.Interface())
}

// list returns the value and true if it is a list of texts, and otherwise nil and false.
func (s *setting) list() ([]string, bool) {
	if s.field.Kind() != reflect.Slice {
		return nil, false
	}
	list, ok := s.field.Convert(reflect.TypeFor[[]string]()).Interface().([]string)
	return list, ok
}

// Type returns the type of the value as the help shows it.
func (s *setting) Type() string {
	switch s.field.Interface().(type) {
	case time.Duration:
		return "duration"
	case int64:
		return "number"
	case bool:
		return "bool"
	}
	if _, ok := s.list(); ok {
		return "list"
	}
	return "string"
}

// Set parses the value of a flag or an environment variable.
func (s *setting) Set(text string) error {
	s.text = text
	switch s.field.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration: write it like 90s, 45m or 24h", text)
		}
		s.field.SetInt(int64(d))
	case int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		s.field.SetInt(n)
	case bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		s.field.SetBool(on)
	default:
		if _, ok := s.list(); ok {
			list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
			s.field.Set(reflect.ValueOf(list).Convert(s.field.Type()))
			break
		}
		s.field.SetString(text)
	}
	return nil
}

// addFlags adds a flag for each setting.
func addFlags(f *pflag.FlagSet, c *Config) {
	for _, s := range settings(c) {
		flag := f.VarPF(s, s.flag(), "", fmt.Sprintf("%s (%s)", s.help, s.env()))
		if s.Type() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}
