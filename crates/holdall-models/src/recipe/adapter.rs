//! Adapters of LoRA: factors of changes to the matrices of a base model, converted as the recipe converts those matrices.

use super::adapter_config::{ALPHA, AdapterKind, check_adapter_alpha};
use super::base::BaseMatrices;
use super::evaluate::Scope;
use super::factored::Factored;
use super::node::{Computed, Function};
use super::outtype::Form;
use super::plan::{
    Input, LeftOut, NamedTensors, Output, Plan, SourceTensor, TensorSource, check_names, combined,
    read,
};
use super::read::Recipe;
use super::reverse::undone;
use super::stepped::Stepped;
use super::{ADAPTER, LEFT_OVER, OutType, metadata, sizes};
use holdall_collections::HashMap;
use holdall_core::error::{Error, Result};
use holdall_core::model::{Attributes, DType, Value, Warning};
use std::ops::Range;

/// What the names of an adapter's tensors begin with.
pub const ADAPTER_PREFIX: &str = "base_model.model.";
/// The tensor whose rows llama.cpp looks up, so that its factors change places.
const LOOKED_UP: &str = "token_embd.weight";
/// What the plan of an adapter is made from, apart from the recipe.
#[derive(Clone)]
pub struct AdapterInput<'a> {
    /// The adapter's `adapter_config.json`.
    pub config: &'a Value,
    /// The base model: its configuration and files, the adapter's tensors as `source`, and the name of the adapter.
    pub base: Input<'a>,
    /// The tensors of the base model, if they are known, to compare shapes with.
    pub tensors: &'a [SourceTensor],
}

/// The plan of the way back: a folder with an adapter.
pub struct RestoredAdapter {
    /// The tensors.
    pub plan: Plan,
    /// The content of `adapter_config.json`.
    pub config: Value,
}

/// A matrix that the adapter changes, with the tensors of its factors.
pub(super) struct Module {
    /// The name without `.weight`.
    pub(super) name: String,
    /// The factor of the inputs, `[rank, inputs]`, and that of the outputs, `[outputs, rank]`.
    inputs: Option<usize>,
    outputs: Option<usize>,
    /// Whether the rows of the matrix are inputs: tokens of an embedding.
    is_embedding: bool,
}

/// The matrices that an adapter changes, as the tensors of a model.
struct Matrices(Vec<SourceTensor>);

impl TensorSource for Matrices {
    fn tensors(&self) -> &[SourceTensor] {
        &self.0
    }

    fn read(&self, at: usize, _: Range<u64>, _: &mut Vec<u8>) -> Result<()> {
        let name = self.0.get(at).map_or("", |tensor| tensor.name.as_str());
        let message = "the recipe compares it with another tensor of the base model";
        Err(ADAPTER.broken(message).in_tensor(name))
    }
}

impl Recipe {
    /// Plans the conversion of an adapter for a model of the recipe.
    ///
    /// # Errors
    /// Returns [`ADAPTER`] if the adapter is of another kind, has other tensors than factors, or if the recipe mixes rows and
    /// columns; [`LEFT_OVER`] if no rule mentions a matrix that it changes; the errors of [`Recipe::plan`].
    pub fn plan_adapter(&self, input: &AdapterInput<'_>) -> Result<Plan> {
        let kind = AdapterKind::new(input.config)?;
        let source = &input.base.source;
        let tensors = source.tensors();
        let outtype = match input.base.outtype {
            OutType::Auto => usual_type(tensors),
            OutType::Mix(_) => {
                return Err(ADAPTER.broken("mixes of block types are for models: use q8_0"));
            }
            chosen => chosen,
        };
        let modules = modules(tensors)?;
        let mut matrices = Vec::new();
        for module in &modules {
            let (inputs, outputs) = module.factors(tensors)?;
            let (rows, columns) = match module.is_embedding {
                true => (inputs.shape.last(), outputs.shape.first()),
                false => (outputs.shape.first(), inputs.shape.last()),
            };
            let shape = rows.into_iter().chain(columns).copied().collect();
            let (name, element) = (module.weight(), inputs.element.clone());
            matrices.push(SourceTensor { name, shape, element, blocks: None });
        }
        let matrices = Matrices(matrices);
        let given = self.given(&input.base, outtype);
        let named = NamedTensors::new(&matrices);
        let scope = Scope::new(input.base.config, &self.definitions, &given, &named)
            .with_defaults(&self.defaults);
        let (groups, dropped) = self.groups(&scope, &matrices)?;
        if let Some(LeftOut { name, reason }) = dropped.first() {
            let message = format!("the recipe leaves the matrix out: {reason}");
            return Err(ADAPTER.broken(message).in_tensor(name));
        }
        let mut base = BaseMatrices::new(&self.rules, input.tensors);
        let mut alpha = None;
        let mut is_scaled = 0u64;
        let mut outputs = Vec::new();
        for group in groups {
            let Some(rule) = self.rules.get(group.rule) else { continue };
            let factored = |is_turned: bool| {
                combined(rule, &group, &scope, &matrices.0, |_, at| match modules.get(at) {
                    Some(module) => module.factored(tensors, is_turned),
                    None => Err(LEFT_OVER.broken("the matrix is not known")),
                })
            };
            let in_context = |e: Error| e.within(rule.line.clone());
            let (mut all, mut sources) = factored(false).map_err(in_context)?;
            // The matrices of some layers have inputs as rows, so that the recipe turns them. Their factors are the same.
            let has_other_rows = |all: &[(String, Factored)], is_turned: bool| -> Result<bool> {
                let mut others = all.iter().filter(|(name, _)| name != LOOKED_UP);
                others.try_fold(false, |any, (name, one)| {
                    let factors = one.clone().into_factors();
                    let left_has_rows = factors.map_err(|e| e.in_tensor(name.as_str()))?.2;
                    Ok(any || left_has_rows == is_turned)
                })
            };
            let turned = has_other_rows(&all, false).map_err(in_context)?;
            if turned {
                (all, sources) = factored(true).map_err(in_context)?;
                if has_other_rows(&all, true).map_err(in_context)? {
                    let message = "the rows of only some of the tensors are inputs";
                    return Err(in_context(ADAPTER.broken(message)));
                }
            }
            for at in &sources {
                let Some(module) = modules.get(*at) else { continue };
                module.check_shape(tensors, base.matrix(group.rule, module)?, turned)?;
            }
            let own = kind.alpha(&sources, &modules, tensors)?;
            let alpha = *alpha.get_or_insert(own);
            let factor = own / alpha;
            is_scaled = is_scaled.saturating_add(u64::from(factor != 1.0));
            // The tensors of the adapter, not the matrices.
            let sources: Vec<usize> = sources
                .iter()
                .filter_map(|at| modules.get(*at))
                .flat_map(|module| module.inputs.into_iter().chain(module.outputs))
                .collect();
            for (name, one) in all {
                let of_name = |e: Error| in_context(e.in_tensor(name.as_str()));
                if !name.ends_with(".weight") {
                    return Err(of_name(ADAPTER.broken("it is no matrix of weights")));
                }
                let (rows, columns, _) = one.into_factors().map_err(of_name)?;
                let rows = match factor == 1.0 {
                    true => rows,
                    false => rows.mapped(Function::Cast).mapped(Function::Multiply(factor)),
                };
                let (a, b) = match name == LOOKED_UP {
                    true => (rows, columns),
                    false => (turned_last(columns).map_err(of_name)?, rows),
                };
                for (suffix, computed) in [("lora_a", a), ("lora_b", b)] {
                    let form = self.adapter_form(&name, &computed, outtype);
                    let name = format!("{name}.{suffix}");
                    outputs.push(Output { name, form, sources: sources.clone(), computed });
                }
            }
        }
        check_names(&outputs)?;
        self.check_layers(&scope, &outputs)?;
        let mut warnings = kind.warnings;
        if is_scaled > 0 {
            let message = format!(
                "{is_scaled} matrices have another alpha than the adapter: one factor of each is multiplied"
            );
            warnings.push(Warning::new("recipe/differs", message));
        }
        let alpha = alpha.ok_or_else(|| ADAPTER.broken("the adapter changes no matrix"))?;
        let metadata = self.adapter_metadata(&scope, input.base.name, alpha)?;
        let left_out = Vec::new();
        Ok(Plan { outputs, metadata, left_out, warnings, outtype, source: source.clone() })
    }

    /// Checks that the base model has the layers that the adapter changes, as far as its configuration tells.
    fn check_layers(&self, scope: &Scope<'_>, outputs: &[Output]) -> Result<()> {
        let is_wanted = |key: &str| key == "general.architecture" || key.ends_with(".block_count");
        let own: Vec<_> =
            self.metadata.iter().filter(|entered| is_wanted(&entered.key)).cloned().collect();
        let found = metadata::values(&own, scope)?;
        let mut numbers = found.iter().filter(|(key, _)| key.ends_with(".block_count"));
        let Some(layers) = numbers.next().and_then(|(_, value)| value.as_integer()) else {
            return Ok(());
        };
        let is_beyond = |name: &str| sizes::layer(name).is_some_and(|n| i128::from(n) >= layers);
        match outputs.iter().find(|output| is_beyond(&output.name)) {
            None => Ok(()),
            Some(output) => {
                let message = format!("the base model has {layers} layers, counted from 0");
                Err(ADAPTER.broken(message).in_tensor(&output.name))
            }
        }
    }

    fn adapter_form(&self, name: &str, computed: &Computed, outtype: OutType) -> Form {
        match self.f32.iter().any(|pattern| pattern.matches(name).is_some()) {
            true => Form::Float(DType::F32),
            false => Form::of_matrix(outtype, computed.shape.last().copied().unwrap_or(0)),
        }
    }

    fn adapter_metadata(&self, scope: &Scope<'_>, name: &str, alpha: f64) -> Result<Attributes> {
        let is_architecture = |key: &str| key == "general.architecture";
        let own: Vec<_> =
            self.metadata.iter().filter(|entered| is_architecture(&entered.key)).cloned().collect();
        let mut out = metadata::values(&own, scope)?;
        let text = |text: &str| Value::Text(text.to_owned());
        out.set("general.type", text("adapter"));
        out.set("adapter.type", text("lora"));
        out.set("general.name", text(name));
        out.set(ALPHA, metadata::single(Value::Float(alpha)));
        out.set("general.quantization_version", Value::Integer(2));
        Ok(out)
    }

    /// Plans the way back of an adapter: `input` has its tensors as a GGUF file has them, and the configuration of the base
    /// model.
    ///
    /// # Errors
    /// Returns [`ADAPTER`] if the file is no adapter of LoRA, and the errors of [`Recipe::plan_back`].
    pub fn plan_adapter_back(
        &self,
        input: &Input<'_>,
        attributes: &Attributes,
    ) -> Result<RestoredAdapter> {
        let is_lora = attributes.get("adapter.type").and_then(Value::as_text) == Some("lora");
        let alpha = attributes.get(ALPHA).and_then(Value::as_f64);
        let Some(alpha) = alpha.filter(|_| is_lora) else {
            return Err(ADAPTER.broken("the metadata is not that of an adapter of LoRA"));
        };
        check_adapter_alpha(attributes)?;
        let tensors = input.source.tensors();
        let pairs = pairs(tensors)?;
        let mut matrices = Vec::new();
        for (name, a, b) in &pairs {
            let one = pair(name, tensors, *a, *b)?;
            let element = tensors.get(*a).map(|tensor| tensor.element.clone());
            let Some(element) = element else { continue };
            matrices.push(SourceTensor {
                name: name.clone(),
                shape: one.shape().to_vec(),
                element,
                blocks: None,
            });
        }
        let matrices = Matrices(matrices);
        let outtype = match input.outtype {
            OutType::Auto => usual_type(tensors),
            chosen => chosen,
        };
        let form = match outtype {
            OutType::F16 => Form::Float(DType::F16),
            OutType::Bf16 => Form::Float(DType::Bf16),
            _ => Form::Float(DType::F32),
        };
        let given = self.given(input, outtype);
        let named = NamedTensors::new(&matrices);
        let scope = Scope::new(input.config, &self.definitions, &given, &named)
            .with_defaults(&self.defaults);
        let (groups, made) = self.written(&scope, &matrices.0)?;
        if let Some(LeftOut { name, reason }) = made.first() {
            let message = format!("the recipe does not read the matrix: {reason}");
            return Err(ADAPTER.broken(message).in_tensor(name));
        }
        let mut outputs = Vec::new();
        let mut modules: Vec<(String, u64)> = Vec::new();
        let mut has_turned = false;
        for group in groups {
            let Some(rule) = self.rules.get(group.rule) else { continue };
            let in_context = |e: Error| e.within(rule.line.clone());
            let all = undone(rule, &group, &scope, &matrices.0, |_, at| match pairs.get(at) {
                Some((name, a, b)) => pair(name, tensors, *a, *b),
                None => Err(LEFT_OVER.broken("the matrix is not known")),
            });
            for (name, one, sources) in all.map_err(in_context)? {
                let of_name = |e: Error| in_context(e.in_tensor(name.as_str()));
                let is_embedding = sources
                    .iter()
                    .any(|at| pairs.get(*at).is_some_and(|(name, ..)| name == LOOKED_UP));
                let sources: Vec<usize> = sources
                    .iter()
                    .filter_map(|at| pairs.get(*at))
                    .flat_map(|(_, a, b)| [*a, *b])
                    .collect();
                let (rows, columns, left_has_rows) = one.into_factors().map_err(of_name)?;
                let Some(module) = name.strip_suffix(".weight").filter(|_| rows.shape.len() == 2)
                else {
                    let message = "an adapter for one layer after the other has no such tensor";
                    return Err(of_name(ADAPTER.broken(message)));
                };
                let rank = rows.shape.last().copied().unwrap_or(0);
                modules.push((module.to_owned(), rank));
                // Rows of an embedding are tokens, its inputs; otherwise the left factor has the outputs.
                let has_outputs = left_has_rows && !is_embedding;
                has_turned |= !left_has_rows && !is_embedding;
                let (inputs, out) = match has_outputs {
                    true => (columns, rows),
                    false => (rows, columns),
                };
                let names = match is_embedding {
                    true => [".lora_embedding_A", ".lora_embedding_B"],
                    false => [".lora_A.weight", ".lora_B.weight"],
                };
                let inputs = turned_last(inputs).map_err(of_name)?;
                for (suffix, computed) in names.iter().zip([inputs, out]) {
                    let name = format!("{ADAPTER_PREFIX}{module}{suffix}");
                    outputs.push(Output { name, form, sources: sources.clone(), computed });
                }
            }
        }
        check_names(&outputs)?;
        let config = restored_config(&modules, alpha, has_turned);
        let plan = Plan {
            outputs,
            metadata: Attributes::new(),
            left_out: Vec::new(),
            warnings: Vec::new(),
            outtype,
            source: input.source.clone(),
        };
        Ok(RestoredAdapter { plan, config })
    }
}

/// Finds the factors of the matrices.
fn modules(tensors: &[SourceTensor]) -> Result<Vec<Module>> {
    let mut out: Vec<Module> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::default();
    for (at, tensor) in tensors.iter().enumerate() {
        let Some((name, is_inputs, is_embedding)) = factor_of(&tensor.name) else {
            let name = tensor.name.as_str();
            let reason = match name {
                name if name.contains("lora_magnitude_vector") => "a magnitude of DoRA",
                name if name.ends_with(".bias") => "a trained bias",
                _ => "a whole tensor",
            };
            let message = format!("{reason}, which a GGUF adapter cannot have");
            return Err(ADAPTER.broken(message).in_tensor(name));
        };
        let index = *known.entry(name.to_owned()).or_insert_with(|| {
            let name = name.to_owned();
            out.push(Module { name, inputs: None, outputs: None, is_embedding });
            out.len().saturating_sub(1)
        });
        let Some(module) = out.get_mut(index) else { continue };
        let slot = if is_inputs { &mut module.inputs } else { &mut module.outputs };
        if slot.replace(at).is_some() || module.is_embedding != is_embedding {
            let message = "the matrix has two adapters";
            return Err(ADAPTER.broken(message).in_tensor(&tensor.name));
        }
    }
    Ok(out)
}

/// Returns the module that a factor is for, whether the factor is that of the inputs, and whether the module is an embedding.
fn factor_of(name: &str) -> Option<(&str, bool, bool)> {
    let name = name.strip_prefix(ADAPTER_PREFIX).unwrap_or(name);
    const FACTORS: [(&str, bool, bool); 4] = [
        (".lora_A", true, false),
        (".lora_B", false, false),
        (".lora_embedding_A", true, true),
        (".lora_embedding_B", false, true),
    ];
    FACTORS.iter().find_map(|(mark, is_inputs, is_embedding)| {
        let (module, rest) = name.rsplit_once(mark)?;
        // The name of the adapter, such as `default`, may be between.
        let rest = rest.strip_suffix(".weight").unwrap_or(rest);
        let is_named = rest.is_empty() || (rest.starts_with('.') && rest.rfind('.') == Some(0));
        (is_named && !module.is_empty()).then_some((module, *is_inputs, *is_embedding))
    })
}

impl Module {
    pub(super) fn weight(&self) -> String {
        format!("{}.weight", self.name)
    }

    /// Returns the factor of the inputs and that of the outputs.
    pub(super) fn factors<'t>(
        &self,
        tensors: &'t [SourceTensor],
    ) -> Result<(&'t SourceTensor, &'t SourceTensor)> {
        let get = |at: Option<usize>| at.and_then(|at| tensors.get(at));
        let (Some(inputs), Some(outputs)) = (get(self.inputs), get(self.outputs)) else {
            let message = "one of the two factors is missing";
            return Err(ADAPTER.broken(message).in_tensor(self.weight()));
        };
        match (inputs.shape.as_slice(), outputs.shape.as_slice()) {
            ([rank, _], [_, other]) if rank == other && *rank > 0 => Ok((inputs, outputs)),
            (a, b) => {
                let message = format!("{a:?} and {b:?} are not the shapes of two factors");
                Err(ADAPTER.broken(message).in_tensor(&inputs.name))
            }
        }
    }

    /// Returns the matrix as the product of its factors. The rows of a turned one are inputs.
    fn factored(&self, tensors: &[SourceTensor], is_turned: bool) -> Result<Factored> {
        let (a, b) = self.factors(tensors)?;
        let inputs = read(a, self.inputs.unwrap_or(0))?.permuted(&[1, 0])?;
        let outputs = read(b, self.outputs.unwrap_or(0))?;
        match is_turned || self.is_embedding {
            true => Factored::new(inputs, outputs),
            false => Factored::new(outputs, inputs),
        }
    }

    /// Compares the shape with that of the base model's tensor, if it is known.
    fn check_shape(
        &self,
        tensors: &[SourceTensor],
        base: Option<&SourceTensor>,
        is_turned: bool,
    ) -> Result<()> {
        let name = self.weight();
        let Some(base) = base else { return Ok(()) };
        let own = self.factored(tensors, is_turned)?;
        match own.shape() == base.shape.as_slice() {
            true => Ok(()),
            false => {
                let (found, expected) = (own.shape(), &base.shape);
                let message = format!(
                    "the factors have the product {found:?}, but the tensor of the base model has the shape {expected:?}"
                );
                Err(ADAPTER.broken(message).in_tensor(name))
            }
        }
    }
}

/// Swaps the last two axes.
fn turned_last(of: Computed) -> Result<Computed> {
    let mut axes: Vec<usize> = (0..of.shape.len()).collect();
    let last = axes.len().saturating_sub(1);
    if last > 0 {
        axes.swap(last.saturating_sub(1), last);
    }
    of.permuted(&axes)
}

/// Returns the type in which the factors are stored.
fn usual_type(tensors: &[SourceTensor]) -> OutType {
    match tensors.first().map(|tensor| tensor.element.dtype) {
        Some(DType::F16) => OutType::F16,
        Some(DType::Bf16) => OutType::Bf16,
        _ => OutType::F32,
    }
}

/// Finds the pairs of factors in a GGUF file: the name of the tensor, and the indices of `lora_a` and `lora_b`.
fn pairs(tensors: &[SourceTensor]) -> Result<Vec<(String, usize, usize)>> {
    let index = |name: &str| tensors.iter().position(|tensor| tensor.name == name);
    let mut out = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        if let Some(name) = tensor.name.strip_suffix(".lora_a") {
            let Some(b) = index(&format!("{name}.lora_b")) else {
                let message = "one of the two factors is missing";
                return Err(ADAPTER.broken(message).in_tensor(name));
            };
            out.push((name.to_owned(), at, b));
            continue;
        }
        let other = tensor.name.strip_suffix(".lora_b");
        if other.is_none_or(|name| index(&format!("{name}.lora_a")).is_none()) {
            let message = "it is not one of two factors";
            return Err(ADAPTER.broken(message).in_tensor(&tensor.name));
        }
    }
    Ok(out)
}

/// Returns the tensor of a GGUF file as the product of its factors.
fn pair(name: &str, tensors: &[SourceTensor], a: usize, b: usize) -> Result<Factored> {
    let (Some(tensor_a), Some(tensor_b)) = (tensors.get(a), tensors.get(b)) else {
        return Err(ADAPTER.broken("one of the two factors is missing").in_tensor(name));
    };
    let (read_a, read_b) = (read(tensor_a, a)?, read(tensor_b, b)?);
    let made = match name == LOOKED_UP {
        true => Factored::new(read_a, read_b),
        false => turned_last(read_a).and_then(|columns| Factored::new(read_b, columns)),
    };
    made.map_err(|e| e.in_tensor(name))
}

fn restored_config(modules: &[(String, u64)], alpha: f64, is_turned: bool) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |n: u64| Value::Integer(n.into());
    let rank = modules.first().map_or(0, |(_, rank)| *rank);
    let others = modules.iter().filter(|(_, own)| *own != rank);
    let ranks = others.map(|(name, own)| (text(&format!("^{name}")), number(*own))).collect();
    #[allow(clippy::cast_possible_truncation)] // It is a whole number below 2^53.
    let alpha = match alpha.fract() == 0.0 && alpha.abs() < 9e15 {
        true => Value::Integer(i128::from(alpha as i64)),
        false => Value::Float(alpha),
    };
    let targets = modules.iter().map(|(name, _)| text(name)).collect();
    let pairs = [
        ("base_model_name_or_path", Value::Null),
        ("bias", text("none")),
        ("fan_in_fan_out", Value::Bool(is_turned)),
        ("lora_alpha", alpha),
        ("lora_dropout", Value::Float(0.0)),
        ("peft_type", text("LORA")),
        ("r", number(rank)),
        ("rank_pattern", Value::Map(ranks)),
        ("target_modules", Value::Array(targets)),
        ("task_type", text("CAUSAL_LM")),
    ];
    Value::Map(pairs.into_iter().map(|(key, value)| (text(key), value)).collect())
}
