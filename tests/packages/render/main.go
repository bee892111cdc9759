// Renders a chart as Helm does, with the same templates and the same functions: what Helm adds to those is here. It is stricter, as a value
// that is not there is an error.
//
//	render CHART [VALUES]    prints the documents
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func read(path string) map[string]interface{} {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	values := map[string]interface{}{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	return values
}

// Lays values over others, member by member. One that those do not have is a mistake, unless they have none.
func lay(over, under map[string]interface{}, path string) {
	isOpen := len(under) == 0
	for name, value := range over {
		before, known := under[name]
		if !known && !isOpen {
			log.Fatalf("%s.%s is no value of the chart", path, name)
		}
		members, isObject := value.(map[string]interface{})
		if inner, wasObject := before.(map[string]interface{}); isObject && wasObject {
			lay(members, inner, path+"."+name)
		} else {
			under[name] = value
		}
	}
}

func main() {
	log.SetFlags(0)
	chart := os.Args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	if len(os.Args) > 2 {
		lay(read(os.Args[2]), values, "")
	}
	about := read(filepath.Join(chart, "Chart.yaml"))

	templates := template.New("chart").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	templates.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var text strings.Builder
			err := templates.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"required": func(what string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", what)
			}
			return value, nil
		},
		"toYaml": func(value interface{}) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	})
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := templates.New(filepath.Base(path)).Parse(string(text)); err != nil {
			log.Fatal(err)
		}
	}
	data := map[string]interface{}{
		"Values":  values,
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": map[string]interface{}{"Name": "fleet", "Namespace": "kitfleet", "Service": "Helm"},
	}
	for _, path := range paths {
		name := filepath.Base(path)
		var text strings.Builder
		if err := templates.ExecuteTemplate(&text, name, data); err != nil {
			log.Fatal(err)
		}
		if !strings.HasPrefix(name, "_") && strings.HasSuffix(name, ".yaml") {
			fmt.Printf("---\n%s\n", text.String())
		}
	}
}
