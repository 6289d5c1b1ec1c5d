package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// reloadableSettings are the settings that a running server can change. A key stands for everything below it.
var reloadableSettings = []string{"limits", "local.projects", "cagent.prices", "pools", "credentials"}

// reloader is the state that App.reload keeps between calls.
type reloader struct {
	read    func(file string) (Config, error) // see Options.Reload
	mu      sync.Mutex                        // one reload at a time
	current Config                            // the configuration that was applied last
}

// reload reads the configuration again and applies it. It returns the file that was read and a description of
// each change. If it fails, nothing has changed.
func (a *App) reload(ctx context.Context) (file string, changes []string, err error) {
	r := &a.reloader
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.read(r.current.file)
	if err == nil {
		next, err = next.withPaths()
	}
	if err != nil {
		return "", nil, fleet.Errorf(fleet.ReasonConfigInvalid, "the configuration is not changed: %v", err)
	}
	changed, refused := changedSettings(r.current, next)
	if len(refused) > 0 {
		return "", nil, fleet.Errorf(fleet.ReasonRestartNeeded, "the configuration is not changed: restart the server to change %s, or take the changes back", strings.Join(refused, ", ")).
			With("settings", strings.Join(refused, ", "))
	}
	apply, err := a.places.prepareReload(next)
	if err != nil {
		return "", nil, fleet.Errorf(fleet.ReasonConfigInvalid, "the configuration is not changed: %v", err)
	}
	apply()
	a.places.prices.Set(next.Cagent.Prices)
	a.service.SetLimits(next.Limits)
	a.service.SetPools(next.Pools)
	a.service.SetCredentials(next.Credentials)
	a.reconciler.SettingsChanged()
	a.interceptor.SetLimits(next.Limits)
	for _, name := range a.forgetProjects() {
		a.reconciler.PollNow(ctx, name) // so that agents soon report whether they accept tasks
	}
	changes = describeChanges(changed, r.current, next)
	r.current = next
	a.log.InfoContext(ctx, "configuration reloaded", slog.String("file", next.file), slog.Any("changes", changes))
	return next.file, changes, nil
}

// prepareReload validates the projects of the configuration, and returns a function that makes the local place use them and keep
// the private files from agents. Without a local place, the function does nothing.
func (p *places) prepareReload(next Config) (apply func(), err error) {
	localPlace, ok := p.byName["local"].(*local.Place)
	if !ok {
		return func() {}, nil
	}
	set, err := localPlace.Reload(projectsOf(next), next.privateFiles())
	if err != nil {
		return nil, fmt.Errorf("local.projects: %w", err)
	}
	return set, nil
}

// changedSettings returns the keys of the settings that differ, in the order of the fields of Config: those that a running
// server can change, and those that need a restart.
func changedSettings(old, next Config) (changed, refused []string) {
	var walk func(a, b reflect.Value, section string)
	walk = func(a, b reflect.Value, section string) {
		for i := range a.NumField() {
			f := a.Type().Field(i)
			key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			switch {
			case !f.IsExported() || key == "-" || key == "" && options != "inline":
			case options == "inline":
				walk(a.Field(i), b.Field(i), section)
			case f.Type.Kind() == reflect.Struct:
				walk(a.Field(i), b.Field(i), section+key+".")
			case equalValues(a.Field(i), b.Field(i)):
			case slices.ContainsFunc(reloadableSettings, func(r string) bool { return section+key == r || strings.HasPrefix(section+key, r+".") }):
				changed = append(changed, section+key)
			default:
				refused = append(refused, section+key)
			}
		}
	}
	walk(reflect.ValueOf(old), reflect.ValueOf(next), "")
	return changed, refused
}

// equalValues reports whether the values are equal. A missing list equals an empty one.
func equalValues(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// describeChanges describes the changes of the settings for people. It shows no values, which may be secret.
func describeChanges(changed []string, old, next Config) (texts []string) {
	for _, key := range changed {
		if key != "local.projects" {
			texts = append(texts, key)
			continue
		}
		before, after := projectsByName(old.Local.Projects), projectsByName(next.Local.Projects)
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if p, ok := before[name]; !ok {
				texts = append(texts, key+": "+name+" added")
			} else if !reflect.DeepEqual(p, after[name]) {
				texts = append(texts, key+": "+name+" changed")
			}
			delete(before, name)
		}
		for _, name := range slices.Sorted(maps.Keys(before)) {
			texts = append(texts, key+": "+name+" removed")
		}
	}
	return texts
}

func projectsByName(projects []local.Project) map[string]local.Project {
	all := map[string]local.Project{}
	for _, p := range projects {
		all[p.Name] = p
	}
	return all
}
