"""What tree-sitter looks for in each language: the data of the symbol parser.

A pattern captures a definition under its kind, with its name as `@name` and, where the syntax gives it
away from any enclosing definition, the owner as `@parent`; `@call` is the name at a call. Where several
patterns capture one node the first one wins.
"""

from __future__ import annotations

# ruff: noqa: E501
# A pattern stays on one line, as long as it is.
from collections.abc import Mapping

_ECMA = """
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @class
(method_definition name: (_) @name) @method
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator name: (identifier) @name value: (class)) @class
(program (lexical_declaration (variable_declarator name: (identifier) @name) @constant))
(program (variable_declaration (variable_declarator name: (identifier) @name) @constant))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @constant)))
(assignment_expression left: (member_expression property: (property_identifier) @name) right: [(arrow_function) (function_expression)]) @method
(assignment_expression left: (identifier) @name right: [(arrow_function) (function_expression)]) @function
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @method
(call_expression function: [(identifier) @call (member_expression property: (_) @call)])
(new_expression constructor: [(identifier) @call (member_expression property: (_) @call)])
"""  # fmt: skip
_JSX = """
(jsx_opening_element name: [(identifier) @call (member_expression property: (_) @call)])
(jsx_self_closing_element name: [(identifier) @call (member_expression property: (_) @call)])
"""
_TYPESCRIPT = (
    _ECMA
    + """
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(function_signature name: (_) @name) @function
[(method_signature name: (_) @name) (abstract_method_signature name: (_) @name)] @method
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @method
[(internal_module name: (_) @name) (module name: (_) @name)] @module
"""
)
_C = """
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @function
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))) @function
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @union
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @type
(type_definition declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @type
(preproc_function_def name: (_) @name) @macro
(preproc_def name: (_) @name) @macro
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @constant)
(translation_unit (declaration declarator: (function_declarator declarator: (identifier) @name)) @prototype)
(call_expression function: [(identifier) @call (field_expression field: (_) @call)])
"""  # fmt: skip
_CPP = (
    _C
    + """
(class_specifier name: (_) @name body: (_)) @class
(function_definition declarator: (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name)) @method
(function_definition declarator: (reference_declarator (function_declarator declarator: [(identifier) (field_identifier) (operator_name)] @name))) @method
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))) @method
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_) @parent name: (_) @name))) @method
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier scope: (_) @parent name: (_) @name)))) @method
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (qualified_identifier scope: (_) @parent name: (_) @name)))) @method
(namespace_definition name: (_) @name) @module
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @concept
(call_expression function: [(qualified_identifier name: (_) @call) (template_function name: (_) @call)])
"""
)  # fmt: skip

TAGS: Mapping[str, str] = {
    "python": """
(function_definition name: (_) @name) @function
(class_definition name: (_) @name) @class
(module (expression_statement (assignment left: (identifier) @name)) @constant)
(class_definition body: (block (expression_statement (assignment left: (identifier) @name)) @attribute))
(type_alias_statement left: (type (identifier) @name)) @type
(call function: [(identifier) @call (attribute attribute: (_) @call)])
(decorator [(identifier) @call (attribute attribute: (_) @call)])
""",
    "javascript": _ECMA + _JSX + "(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @method",
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT + _JSX,
    "go": """
(function_declaration name: (_) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: (_) @parent)) name: (_) @name) @method
(type_spec name: (_) @name type: (struct_type)) @struct
(type_spec name: (_) @name type: (interface_type)) @interface
[(type_spec name: (_) @name) (type_alias name: (_) @name)] @type
(method_elem name: (_) @name) @method
(source_file (const_declaration (const_spec name: (_) @name) @constant))
(source_file (var_declaration (var_spec name: (_) @name) @variable))
(source_file (var_declaration (var_spec_list (var_spec name: (_) @name) @variable)))
(call_expression function: [(identifier) @call (selector_expression field: (_) @call)])
(call_expression function: (type_instantiation_expression type: [(type_identifier) @call (qualified_type name: (_) @call)]))
""",
    "rust": """
(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name) @struct
(enum_item name: (_) @name) @enum
(union_item name: (_) @name) @union
(trait_item name: (_) @name) @trait
(type_item name: (_) @name) @type
(mod_item name: (_) @name body: (_)) @module
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @constant
(macro_definition name: (_) @name) @macro
(impl_item type: (_) @name) @impl
(call_expression function: [(identifier) @call (field_expression field: (_) @call) (scoped_identifier name: (_) @call)])
(call_expression function: (generic_function function: [(identifier) @call (field_expression field: (_) @call) (scoped_identifier name: (_) @call)]))
(macro_invocation macro: [(identifier) @call (scoped_identifier name: (_) @call)])
""",
    "java": """
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(record_declaration name: (_) @name) @record
(annotation_type_declaration name: (_) @name) @annotation
(method_declaration name: (_) @name) @method
[(constructor_declaration name: (_) @name) (compact_constructor_declaration name: (_) @name)] @constructor
(field_declaration declarator: (variable_declarator name: (_) @name)) @field
(constant_declaration declarator: (variable_declarator name: (_) @name)) @constant
(enum_constant name: (_) @name) @constant
(method_invocation name: (_) @call)
(object_creation_expression type: [(type_identifier) @call (generic_type (type_identifier) @call)])
""",
    "kotlin": """
(class_declaration "interface" name: (_) @name) @interface
(class_declaration name: (_) @name) @class
(object_declaration name: (_) @name) @object
(function_declaration name: (_) @name) @function
(property_declaration (variable_declaration (identifier) @name)) @property
(type_alias type: (_) @name) @type
(enum_entry (identifier) @name) @constant
(call_expression . [(identifier) @call (navigation_expression (identifier) @call .)])
""",
    "c": _C,
    "cpp": _CPP,
    "objc": """
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @function
(struct_specifier name: (_) @name body: (_)) @struct
(preproc_def name: (_) @name) @macro
(class_interface . (identifier) @name) @interface
(class_implementation . (identifier) @name) @class
(protocol_declaration . (identifier) @name) @protocol
(method_definition (identifier) @name) @method
(method_declaration (identifier) @name) @method
(call_expression function: (identifier) @call)
(message_expression method: (identifier) @call)
""",
    "csharp": """
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(struct_declaration name: (_) @name) @struct
(record_declaration name: (_) @name) @record
(enum_declaration name: (_) @name) @enum
(delegate_declaration name: (_) @name) @type
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @constructor
(local_function_statement name: (_) @name) @function
(property_declaration name: (_) @name) @property
(field_declaration (variable_declaration (variable_declarator name: (_) @name))) @field
(enum_member_declaration name: (_) @name) @constant
[(namespace_declaration name: (_) @name) (file_scoped_namespace_declaration name: (_) @name)] @module
(invocation_expression function: [(identifier) @call (member_access_expression name: (_) @call) (generic_name (identifier) @call)])
(object_creation_expression type: [(identifier) @call (generic_name (identifier) @call)])
""",
    "ruby": """
(method name: (_) @name) @method
(singleton_method name: (_) @name) @method
(class name: (_) @name) @class
(module name: (_) @name) @module
(assignment left: (constant) @name) @constant
(call method: (_) @call)
""",
    "php": """
(function_definition name: (_) @name) @function
(method_declaration name: (_) @name) @method
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(trait_declaration name: (_) @name) @trait
(enum_declaration name: (_) @name) @enum
(const_declaration (const_element (name) @name)) @constant
(property_declaration (property_element (variable_name) @name)) @property
(function_call_expression function: [(name) @call (qualified_name (name) @call)])
(member_call_expression name: (_) @call)
(nullsafe_member_call_expression name: (_) @call)
(scoped_call_expression name: (_) @call)
(object_creation_expression (name) @call)
""",
    "scala": """
(class_definition name: (_) @name) @class
(object_definition name: (_) @name) @object
(trait_definition name: (_) @name) @trait
(enum_definition name: (_) @name) @enum
(type_definition name: (_) @name) @type
[(function_definition name: (_) @name) (function_declaration name: (_) @name)] @function
(given_definition name: (_) @name) @given
(template_body (val_definition pattern: (identifier) @name) @value)
(compilation_unit (val_definition pattern: (identifier) @name) @value)
(call_expression function: [(identifier) @call (field_expression field: (_) @call) (generic_function function: (identifier) @call)])
""",
    "swift": """
(class_declaration declaration_kind: "struct" name: (_) @name) @struct
(class_declaration declaration_kind: "enum" name: (_) @name) @enum
(class_declaration declaration_kind: "extension" name: (_) @name) @extension
(class_declaration name: (_) @name) @class
(protocol_declaration name: (_) @name) @protocol
(function_declaration name: (_) @name) @function
(protocol_function_declaration name: (_) @name) @method
(init_declaration "init" @name) @constructor
(typealias_declaration name: (_) @name) @type
(property_declaration name: (pattern bound_identifier: (_) @name)) @property
(call_expression [(simple_identifier) @call (navigation_expression suffix: (navigation_suffix suffix: (_) @call))])
""",
    "bash": """
(function_definition name: (_) @name) @function
(program (variable_assignment name: (_) @name) @constant)
(program (declaration_command (variable_assignment name: (_) @name) @constant))
(command name: (command_name (word) @call))
""",
    "lua": """
(function_declaration name: [(identifier) @name (dot_index_expression field: (_) @name) (method_index_expression method: (_) @name)]) @function
(assignment_statement (variable_list name: [(identifier) @name (dot_index_expression field: (_) @name)]) (expression_list value: (function_definition))) @function
(function_call name: [(identifier) @call (dot_index_expression field: (_) @call) (method_index_expression method: (_) @call)])
""",
    "elixir": """
(call target: (identifier) @_kw (arguments [(alias) @name (call target: (identifier) @name) (identifier) @name (binary_operator left: (call target: (identifier) @name)) (binary_operator left: (identifier) @name)]) (#match? @_kw "^(def|defp|defmacro|defmacrop|defguard|defguardp|defdelegate)$")) @function
(call target: (identifier) @_kw (arguments (alias) @name) (#match? @_kw "^(defmodule|defprotocol|defimpl)$")) @module
(call target: (identifier) @call (#not-match? @call "^(def|defp|defmacro|defmacrop|defguard|defguardp|defdelegate|defmodule|defprotocol|defimpl)$"))
(call target: (dot right: (identifier) @call))
""",
    "haskell": """
(function name: (_) @name) @function
(bind name: (_) @name) @function
(signature name: (_) @name) @signature
(data_type name: (_) @name) @type
(newtype name: (_) @name) @type
(type_synomym name: (_) @name) @type
(class name: (_) @name) @class
(instance name: (_) @name) @instance
(apply function: [(variable) @call (qualified id: (variable) @call)])
""",
    "ocaml": """
(value_definition (let_binding pattern: (value_name) @name)) @function
(type_definition (type_binding name: (_) @name)) @type
(module_definition (module_binding (module_name) @name)) @module
(module_type_definition (module_type_name) @name) @module
(external (value_name) @name) @function
(exception_definition (constructor_declaration (constructor_name) @name)) @exception
(class_definition (class_binding name: (_) @name)) @class
(method_definition name: (_) @name) @method
(application_expression function: (value_path (value_name) @call))
""",
    "dart": """
(class_definition name: (_) @name) @class
(mixin_declaration (identifier) @name) @mixin
(enum_declaration name: (_) @name) @enum
(extension_declaration name: (_) @name) @extension
(type_alias (type_identifier) @name) @type
(function_signature name: (_) @name) @function
(getter_signature name: (_) @name) @property
(setter_signature name: (_) @name) @property
(constructor_signature name: (_) @name) @constructor
(factory_constructor_signature (identifier) @name) @constructor
((identifier) @call . (selector (argument_part)))
((unconditional_assignable_selector (identifier) @call))
""",
    "sql": """
(create_table (object_reference name: (_) @name)) @table
(create_view (object_reference name: (_) @name)) @view
(create_materialized_view (object_reference name: (_) @name)) @view
(create_function (object_reference name: (_) @name)) @function
(create_index column: (_) @name) @index
(create_trigger (object_reference name: (_) @name)) @trigger
(create_type (object_reference name: (_) @name)) @type
(invocation (object_reference name: (_) @call))
""",
    "perl": """
(function_definition name: (_) @name) @function
(package_statement (package_name) @name) @module
(call_expression_with_bareword function_name: (_) @call)
(method_invocation function_name: (_) @call)
""",
    "r": """
(binary_operator lhs: (identifier) @name operator: ["<-" "="] rhs: (function_definition)) @function
(call function: [(identifier) @call (namespace_operator rhs: (identifier) @call)])
""",
    "julia": """
(function_definition (signature (call_expression . (identifier) @name))) @function
(macro_definition (signature (call_expression . (identifier) @name))) @macro
(struct_definition (type_head (identifier) @name)) @struct
(module_definition name: (_) @name) @module
(assignment . (call_expression . (identifier) @name)) @function
(call_expression . (identifier) @call)
""",
    "zig": """
(function_declaration name: (_) @name) @function
(variable_declaration (identifier) @name [(struct_declaration) (enum_declaration) (union_declaration)]) @struct
(source_file (variable_declaration . (identifier) @name) @constant)
(test_declaration (string) @name) @test
(call_expression function: [(identifier) @call (field_expression member: (_) @call)])
""",
    "erlang": """
(function_clause name: (_) @name) @function
(module_attribute name: (_) @name) @module
(record_decl name: (_) @name) @record
(call expr: [(atom) @call (remote fun: (atom) @call)])
""",
    "groovy": """
(class_definition name: (_) @name) @class
(function_definition function: (_) @name) @function
(function_declaration function: (_) @name) @function
(function_call function: [(identifier) @call (dotted_identifier (identifier) @call .)])
""",
    "solidity": """
(contract_declaration name: (_) @name) @contract
(interface_declaration name: (_) @name) @interface
(library_declaration name: (_) @name) @library
(function_definition name: (_) @name) @function
(modifier_definition name: (_) @name) @modifier
(event_definition name: (_) @name) @event
(struct_declaration name: (_) @name) @struct
(enum_declaration name: (_) @name) @enum
(call_expression function: (expression [(identifier) @call (member_expression property: (_) @call)]))
""",
    "powershell": """
(function_statement (function_name) @name) @function
(class_statement (simple_name) @name) @class
(class_method_definition (simple_name) @name) @method
(command command_name: (_) @call)
""",
    "vim": """
(function_definition (function_declaration name: (_) @name)) @function
(call_expression function: (_) @call)
""",
    "starlark": """
(function_definition name: (_) @name) @function
(module (expression_statement (assignment left: (identifier) @name)) @constant)
(call function: [(identifier) @call (attribute attribute: (_) @call)])
""",
    "clojure": """
(list_lit . (sym_lit name: (sym_name) @_kw) . (sym_lit name: (sym_name) @name) (#match? @_kw "^def")) @definition
(list_lit . (sym_lit name: (sym_name) @call) (#not-match? @call "^(def|ns$)"))
""",
    "fortran": """
(function (function_statement name: (_) @name)) @function
(subroutine (subroutine_statement name: (_) @name)) @function
(module (module_statement (name) @name)) @module
(program (program_statement (name) @name)) @module
(subroutine_call subroutine: (_) @call)
(call_expression (identifier) @call)
""",
    "cmake": """
(function_def (function_command (argument_list . (argument) @name))) @function
(macro_def (macro_command (argument_list . (argument) @name))) @function
(normal_command (identifier) @call)
""",
    "make": "(rule (targets (word) @name)) @target",
    "proto": """
(message (message_name) @name) @message
(enum (enum_name) @name) @enum
(service (service_name) @name) @service
(rpc (rpc_name) @name) @method
""",
    "graphql": """
(object_type_definition (name) @name) @type
(interface_type_definition (name) @name) @interface
(input_object_type_definition (name) @name) @type
(enum_type_definition (name) @name) @enum
(union_type_definition (name) @name) @union
(scalar_type_definition (name) @name) @type
(operation_definition (name) @name) @operation
(fragment_definition (fragment_name) @name) @operation
""",
    "hcl": """
(block (identifier) . (string_lit (template_literal) @name) . (block_start)) @block
(block (identifier) . (string_lit) . (string_lit (template_literal) @name)) @resource
""",
}  # fmt: skip
