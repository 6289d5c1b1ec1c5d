package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"fleet/internal/face/wire"
	"fleet/internal/store/postgres"
	"fleet/internal/userdir"
)

// ConfigFile is the name of the configuration file.
const ConfigFile = "fleet.yaml"

// otherEnv are environment variables that are not settings of a server: the command line reads some of them, and Fleet
// sets the rest for runs. A server does not warn about them, because an agent may run this program too.
var otherEnv = []string{
	"FLEET_CONFIG", "FLEET_SERVER", "FLEET_TOKEN", "FLEET_TOKEN_FILE", "FLEET_CA_FILE", "FLEET_CLIENT_CERT", "FLEET_CLIENT_KEY",
	"FLEET_AGENT", "FLEET_ASK", "FLEET_CHECK", "FLEET_FEEDBACK_FILE", "FLEET_MESSAGES", "FLEET_PAYLOAD", "FLEET_PROJECT", "FLEET_PROMPT_FILE", "FLEET_REPORT_TOKEN_FILE", "FLEET_REPORT_URL",
	"FLEET_ROLE", "FLEET_ROLE_FILE",
	"FLEET_RUN_DIR", "FLEET_SPEC_FILE", "FLEET_SUMMARY", "FLEET_TASK_ID",
}

// oidcSecretEnv is the environment variable with the secret of the client in oidc.client_id.
const oidcSecretEnv = "FLEET_OIDC_CLIENT_SECRET"

// Load returns the configuration. Flags take precedence over environment variables, these over the file, and the file
// over the defaults. file is the path of the configuration file. If it is "", Load uses the file that FLEET_CONFIG
// names, else ./fleet.yaml, else fleet.yaml in the user's configuration directory. flags are the flags that addFlags
// has added; it may be nil. Unknown keys of the file are errors. Unknown environment variables are not: Load keeps them
// in Config.unknownEnv, and Open logs a warning. Other software may have set them. For example, Kubernetes sets
// FLEET_PORT and FLEET_SERVICE_HOST for a Service named fleet.
func Load(file string, environ []string, flags *pflag.FlagSet) (Config, error) {
	c := DefaultConfig()
	path, err := findConfig(file, environ)
	if err != nil {
		return c, err
	}
	for _, read := range []func() error{
		func() error { return readConfig(path, &c) },
		func() error { return readEnviron(environ, &c) },
		func() error { return readFlags(flags, &c) },
	} {
		if err := read(); err != nil {
			return c, err
		}
	}
	return c, c.Validate()
}

// readFlags reads the flags that were set on the command line into c.
func readFlags(flags *pflag.FlagSet, c *Config) error {
	if flags == nil {
		return nil
	}
	for _, s := range settings(c) {
		if f := flags.Lookup(s.flag()); f != nil && f.Changed {
			if text := f.Value.(*setting).text; s.key == "store" && postgres.HasPassword(text) {
				return errors.New("--store has a password, which other users of this machine can read: give it in FLEET_STORE, fleet.yaml, PGPASSWORD or ~/.pgpass")
			}
			if err := s.Set(f.Value.(*setting).text); err != nil {
				return fmt.Errorf("--%s: %w", s.flag(), err)
			}
		}
	}
	return nil
}

// findConfig returns the path of the configuration file, or "" if there is none.
func findConfig(file string, environ []string) (string, error) {
	if file != "" {
		return file, nil
	}
	for _, kv := range environ {
		if file, ok := strings.CutPrefix(kv, "FLEET_CONFIG="); ok && file != "" {
			return file, nil
		}
	}
	paths := []string{ConfigFile}
	if dir := userdir.Config(); dir != "" {
		paths = append(paths, filepath.Join(dir, ConfigFile))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// readConfig reads the file into c. It does nothing if path is "".
func readConfig(path string, c *Config) error {
	if path == "" {
		return nil
	}
	full, err := fullPath(path) // for example FLEET_CONFIG=~/fleet.yaml
	if err != nil {
		return err
	}
	b, err := os.ReadFile(full)
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err := checkFile(b); err != nil {
		return fmt.Errorf("%s:%w", path, err)
	}
	c.file = full
	var content any
	if err := yaml.Unmarshal(b, &content); err == nil && content == nil {
		return nil // only comments
	}
	err = yaml.UnmarshalWithOptions(b, c, yaml.Strict())
	if unknown, ok := errors.AsType[*yaml.UnknownFieldError](err); ok {
		key, sections := unknown.Token.Value, sectionsOf(reflect.TypeFor[Config]())
		hint := didYouMean(key, slices.Sorted(maps.Keys(sections)))
		if in := sections[key]; len(in) > 0 {
			hint = ": it belongs " + strings.Join(in, " or ")
		}
		return fmt.Errorf("%s:%d: unknown key %q%s", path, unknown.Token.Position.Line, key, hint)
	}
	if err != nil { // without the neighbouring lines of the file, which may have secrets
		return fmt.Errorf("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	return nil
}

// didYouMean returns a hint for an unknown name: the most similar known name, or else all known names.
func didYouMean(name string, known []string) string {
	if near := wire.Nearest(name, known); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ": the keys are " + strings.Join(known, ", ")
}

// sectionsOf returns, for each key below the type, the sections in which it is allowed, as text for people: "at the top"
// or "in local.projects".
func sectionsOf(t reflect.Type) map[string][]string {
	sections := map[string][]string{}
	var walk func(t reflect.Type, in string)
	walk = func(t reflect.Type, in string) {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
			return
		}
		where := "at the top"
		if in != "" {
			where = "in " + in
		}
		for f := range t.Fields() {
			key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			switch {
			case key == "-":
			case options == "inline":
				walk(f.Type, in)
			case key != "":
				sections[key] = append(sections[key], where)
				walk(f.Type, strings.TrimPrefix(in+"."+key, "."))
			}
		}
	}
	walk(t, "")
	return sections
}

// readEnviron reads the environment variables of Fleet into c.
func readEnviron(environ []string, c *Config) error {
	known := map[string]*setting{}
	names := slices.Clone(otherEnv)
	for _, s := range settings(c) {
		known[s.env()] = s
		names = append(names, s.env())
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if name == oidcSecretEnv {
			c.OIDC.ClientSecret = value
			continue
		}
		if !strings.HasPrefix(name, "FLEET_") || slices.Contains(otherEnv, name) {
			continue
		}
		s := known[name]
		if s == nil {
			if near := wire.Nearest(name, names); near != "" {
				name += " (did you mean " + near + "?)"
			}
			c.unknownEnv = append(c.unknownEnv, name)
			continue
		}
		if err := s.Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
