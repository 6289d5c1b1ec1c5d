package telemetry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "fleet/gen/fleet/v1" // registers the services
	"fleet/internal/telemetry"
)

// targetLabels are the labels that Prometheus adds to every scraped series.
var targetLabels = []string{"instance", "job"}

// metricOf returns the metric that the series belongs to; nil if there is none. A series of a histogram is returned as
// a counter.
func metricOf(series string) *telemetry.Metric {
	for _, m := range telemetry.Metrics() {
		if m.Name == series {
			return &m
		}
		part, ok := strings.CutPrefix(series, m.Name)
		if ok && m.Kind == telemetry.Histogram && slices.Contains([]string{"_bucket", "_count", "_sum"}, part) {
			m.Name, m.Kind = series, telemetry.Counter
			if part == "_bucket" {
				m.Labels = append(slices.Clone(m.Labels), "le")
			}
			return &m
		}
	}
	return nil
}

// query is a PromQL query of a dashboard or an alert.
type query struct {
	t       *testing.T
	text    string
	library map[string]float64 // further series that the query may use, such as those of the Go runtime
}

// check fails the test unless the query is valid and each metric and label in it exists. It returns the labels that the
// result can have.
func (q query) check() []string {
	q.t.Helper()
	e, err := parser.ParseExpr(q.text)
	require.NoError(q.t, err, q.text)
	return q.labelsOf(e)
}

// labelsOf checks the metrics and labels of the expression, and returns the labels that its result can have.
func (q query) labelsOf(e parser.Expr) []string {
	q.t.Helper()
	switch e := e.(type) {
	case *parser.VectorSelector:
		return q.checkSelector(e)
	case *parser.AggregateExpr:
		require.False(q.t, e.Without, "%s: name the labels with by, not without", q.text)
		require.Subset(q.t, q.labelsOf(e.Expr), e.Grouping, q.text)
		return e.Grouping
	case *parser.Call:
		for _, arg := range e.Args {
			m, ok := arg.(*parser.MatrixSelector)
			if !ok {
				continue
			}
			metric := metricOf(m.VectorSelector.(*parser.VectorSelector).Name)
			counts := slices.Contains([]string{"rate", "increase"}, e.Func.Name)
			require.True(q.t, metric == nil || counts == (metric.Kind == telemetry.Counter), "%s: %s of a %v", q.text, e.Func.Name, metric)
		}
	}
	var all []string
	for _, child := range parser.Children(e) {
		if c, ok := child.(parser.Expr); ok {
			all = append(all, q.labelsOf(c)...)
		}
	}
	return all
}

// checkSelector checks the metric and the matchers, and returns the labels of the series.
func (q query) checkSelector(s *parser.VectorSelector) []string {
	q.t.Helper()
	known := targetLabels
	if m := metricOf(s.Name); m != nil {
		require.NotEqual(q.t, telemetry.Histogram, m.Kind, "%s: name a series of the histogram", q.text)
		known = append(slices.Clone(m.Labels), targetLabels...)
	} else if _, ok := q.library[s.Name]; !ok {
		require.Equal(q.t, "up", s.Name, "%s: the metric must exist", q.text)
	}
	for _, m := range s.LabelMatchers {
		if m.Name == labels.MetricName {
			continue
		}
		require.Contains(q.t, known, m.Name, q.text)
		if m.Name == "method" {
			for _, name := range methodName.FindAllStringSubmatch(m.Value, -1) {
				matches := func(method string) bool { return strings.HasSuffix(method, "/"+name[1]) && m.Matches(method) }
				require.True(q.t, slices.ContainsFunc(methods(), matches), "%s: %s must match a method %s", q.text, m.Value, name[1])
			}
		}
	}
	return known
}

// methodName matches the names of methods in a matcher. It does not match the names of services, which a slash follows.
var methodName = regexp.MustCompile(`\b([A-Z]\w+)(?:$|[^/\w])`)

// methods returns the values of the label method.
func methods() (all []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				all = append(all, string(service.Name())+"/"+string(service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	return all
}

// These match the labels that a legend of the dashboard or a text of an alert shows.
var (
	legendLabel = regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	alertLabel  = regexp.MustCompile(`\$labels\.(\w+)`)
)

// requireKnownLabels requires that each label that the text shows is among the known labels.
func requireKnownLabels(t *testing.T, pattern *regexp.Regexp, text string, known []string) {
	t.Helper()
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		require.Contains(t, known, m[1], text)
	}
}

// TestDashboard checks the queries of the Grafana dashboard, and that it shows every metric.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			Title   string
			ID      int
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(operateDir, "dashboard.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	variables := []string{"__rate_interval"}
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
		if object, ok := v.Query.(map[string]any); ok {
			values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(object["query"].(string))
			require.NotNil(t, values, v.Name)
			require.NotNil(t, metricOf(values[1]), v.Name)
			require.Contains(t, append(metricOf(values[1]).Labels, targetLabels...), values[2], v.Name)
		}
	}
	library := scrape(t, telemetry.New("v1"))
	shownMetrics := map[string]bool{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "the id of the panel %s must be unique", p.Title)
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				require.Contains(t, variables, m[1], target.Expr)
			}
			q := query{t, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), library}
			requireKnownLabels(t, legendLabel, target.LegendFormat, q.check())
			for _, m := range telemetry.Metrics() {
				shownMetrics[m.Name] = shownMetrics[m.Name] || strings.Contains(target.Expr, m.Name)
			}
		}
	}
	for _, m := range telemetry.Metrics() {
		require.True(t, shownMetrics[m.Name], "the dashboard must show %s", m.Name)
	}
}

// TestAlerts checks the alerting rules as promtool does, and that each metric and label in them exists.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(operateDir, "alerts.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalWithOptions(text, &rules, yaml.Strict()))
	require.NotEmpty(t, rules.Groups)
	functions := template.FuncMap{"humanizeDuration": func(v any) any { return v }}
	alertNames := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			require.Regexp(t, `^Fleet[A-Z]\w+$`, r.Alert)
			require.False(t, alertNames[r.Alert], "there must be only one alert %s", r.Alert)
			alertNames[r.Alert] = true
			e, err := parser.ParseExpr(r.Expr)
			require.NoError(t, err, r.Alert)
			require.Equal(t, parser.ValueTypeVector, e.Type(), r.Alert)
			known := query{t, r.Expr, nil}.check()
			if r.For != "" {
				_, err := model.ParseDuration(r.For)
				require.NoError(t, err, r.Alert)
			}
			require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
			for _, key := range []string{"summary", "description"} {
				require.NotEmpty(t, r.Annotations[key], r.Alert)
				requireKnownLabels(t, alertLabel, r.Annotations[key], known)
				_, err := template.New(r.Alert).Funcs(functions).Parse("{{$labels := .Labels}}{{$value := .Value}}" + r.Annotations[key])
				require.NoError(t, err, r.Alert)
			}
		}
	}
}

// TestQueriesAreChecked checks helpers that the other tests rely on: metricOf finds the right metrics, and query.check
// returns the labels of the result.
func TestQueriesAreChecked(t *testing.T) {
	t.Parallel()
	require.Nil(t, metricOf("fleet_call_total"))
	require.Nil(t, metricOf("fleet_calls_total_bucket"))
	require.Equal(t, []string{"method", "face", "le"}, metricOf("fleet_call_duration_seconds_bucket").Labels)
	require.Contains(t, query{t, `sum by (face) (rate(fleet_calls_total[5m]))`, nil}.check(), "face")
	require.NotContains(t, query{t, `sum by (face) (rate(fleet_calls_total[5m]))`, nil}.check(), "method")
}
