//! The safe names of scikit-learn models, pandas frames and NumPy random generators.
//!
//! A name is in the list if neither a call with arguments that a pickle can create, nor BUILD with any state, imports,
//! opens or runs anything that the pickle does not name itself. Anything that a pickle names has its own verdict, so
//! calling it, as some of these names do, adds no risk. The behaviour of a model when it is used is not considered, and
//! neither are bugs in the argument checks of compiled code.
//!
//! Most functions and `__setstate__` methods were reviewed in NumPy 2.4, pandas 3.1, SciPy 1.17 and scikit-learn 1.9.
//! Constructors were not reviewed but tested: `interop/scan/audit.py` calls every name that exists with objects that
//! pretend to be arrays, classes and functions. Names of older releases that it does not find are listed only if they
//! are another location of the same class.
//!
//! - `numpy.random`: the constructors look up a name in a dict of four classes, or call the class that is given without
//!   arguments; a second function may be given, whose result is used only if it is a generator. States are numbers.
//! - `pandas`: the functions `_new_…` call a given class with names and values, and `__pyx_unpickle_NDArrayBacked`
//!   calls it without arguments: the class must be from pandas ([`Arguments::FirstIsOf`](super::Arguments)).
//!   Constructors of containers convert their arguments to arrays, so they are called without arguments
//!   ([`Use::CallWithNothing`]). BUILD sets attributes, or calls `__setstate__`, which takes blocks and axes from a
//!   dict or a tuple. Types and offsets accept numbers and short strings.
//! - `scipy.sparse`, `BSpline`: BUILD sets attributes; constructors create arrays, and are called without arguments.
//!   `asarray` is an attribute of `BSpline`, and converts anything to an array, so it must not be called.
//! - scikit-learn's estimators, kernels and vectorizers: constructors only set attributes with the names of their
//!   arguments. BUILD removes `_sklearn_version` from the state, warns if it is another version, and sets attributes;
//!   that of `IsotonicRegression` creates an interpolation of two arrays, that of `Bunch` does nothing. Attributes that
//!   are functions (`FunctionTransformer.func`, `FeatureAgglomeration.pooling_func`) are called when a model is used.
//! - scikit-learn's losses and links: constructors accept numbers.
//! - Importing any module of scikit-learn runs only its own top-level code: names are accepted in any of its modules.
//! - scikit-learn's trees (`Tree`, `KDTree`, `BallTree`, `TreePredictor`, distances), in C: `newObj(class)` is
//!   `class.__new__(class)`, and requires a class of scikit-learn; `__setstate__` takes arrays, and checks their types
//!   and shapes. `BallTree` calls a function that is given as `metric`; distances take numbers and arrays.
//! - Functions of numbers are attributes of models, and must not be called ([`Use::Refer`]).

use super::Use;

/// Returns `true` if `name` in `module` is in the lists below.
pub(super) fn is_safe(module: &str, name: &str) -> bool {
    // The module of a class in scikit-learn differs between versions. Only `Interval` and `Tree` are names of two
    // classes, of which the others contain numbers and labels. Bundled copies of other packages are excluded.
    if let Some(inside) = module.strip_prefix("sklearn.") {
        let is_own = !inside.split('.').any(|part| part == "externals");
        let is_new = name == "newObj"
            && matches!(
                inside,
                "neighbors._kd_tree" | "neighbors._ball_tree" | "metrics._dist_metrics"
            );
        return is_own
            && (is_new
                || SKLEARN.contains(&name)
                || FUNCTIONS.contains(&name)
                || OF_NUMPY.contains(&name));
    }
    LISTED.iter().any(|(modules, names)| modules.contains(&module) && names.contains(&name))
}

/// Returns the allowed use of a name of these packages.
pub(super) fn use_of(module: &str, name: &str) -> Use {
    match module.split('.').next() {
        Some("sklearn") if FUNCTIONS.contains(&name) || name == "ndarray" => Use::Refer,
        Some("scipy") if name == "asarray" => Use::Refer,
        Some("scipy") => Use::CallWithNothing,
        Some("pandas") if is_container(name) => Use::CallWithNothing,
        _ => Use::Call,
    }
}

/// Returns `true` if a name is that of a class whose calls return objects of the class.
pub(super) fn is_class(module: &str, name: &str) -> bool {
    match module.split('.').next() {
        Some("sklearn") => SKLEARN.contains(&name),
        Some("pandas") => is_container(name),
        _ => false,
    }
}

/// Returns `true` if a pandas class contains arrays, which it creates from its arguments.
fn is_container(name: &str) -> bool {
    matches!(name, "DataFrame" | "Series" | "Categorical")
        || !name.starts_with('_') && (name.ends_with("Index") || name.ends_with("Array"))
}

/// Modules, and names in them, that only create values from their arguments.
const LISTED: &[(&[&str], &[&str])] = &[
    (
        &["numpy.random._pickle"],
        &["__bit_generator_ctor", "__generator_ctor", "__randomstate_ctor"],
    ),
    (
        &["numpy.random.bit_generator", "numpy.random._bit_generator"],
        &["SeedSequence", "__pyx_unpickle_SeedSequence"],
    ),
    (&["numpy.random._mt19937"], &["MT19937"]),
    (&["numpy.random._pcg64"], &["PCG64", "PCG64DXSM"]),
    (&["numpy.random._philox"], &["Philox"]),
    (&["numpy.random._sfc64"], &["SFC64"]),
    (
        &["pandas", "pandas.core.frame", "pandas.core.series", "pandas.core.api"],
        &[
            "DataFrame",
            "Series",
            "Index",
            "RangeIndex",
            "MultiIndex",
            "DatetimeIndex",
            "PeriodIndex",
            "IntervalIndex",
            "TimedeltaIndex",
            "CategoricalIndex",
            "Categorical",
            "CategoricalDtype",
            "StringDtype",
            "BooleanDtype",
            "Int8Dtype",
            "Int16Dtype",
            "Int32Dtype",
            "Int64Dtype",
            "UInt8Dtype",
            "UInt16Dtype",
            "UInt32Dtype",
            "UInt64Dtype",
            "Float32Dtype",
            "Float64Dtype",
            "PeriodDtype",
            "IntervalDtype",
            "DatetimeTZDtype",
            "Interval",
        ],
    ),
    (
        &[
            "pandas.arrays",
            "pandas.core.arrays.string_",
            "pandas.core.arrays.datetimes",
            "pandas.core.arrays.categorical",
            "pandas.core.arrays.integer",
            "pandas.core.arrays.boolean",
            "pandas.core.arrays.floating",
            "pandas.core.arrays.timedeltas",
            "pandas.core.arrays.period",
            "pandas.core.arrays.interval",
        ],
        &[
            "StringArray",
            "DatetimeArray",
            "TimedeltaArray",
            "PeriodArray",
            "IntervalArray",
            "IntegerArray",
            "FloatingArray",
            "BooleanArray",
            "Categorical",
            "StringDtype",
            "BooleanDtype",
            "Int64Dtype",
        ],
    ),
    (
        &["pandas.core.dtypes.dtypes"],
        &["CategoricalDtype", "DatetimeTZDtype", "PeriodDtype", "IntervalDtype"],
    ),
    (&["pandas.core.internals.managers"], &["BlockManager", "SingleBlockManager"]),
    (&["pandas.core.internals.blocks"], &["new_block"]),
    (&["pandas._libs.internals"], &["_unpickle_block"]),
    (&["pandas._libs.arrays"], &["__pyx_unpickle_NDArrayBacked"]),
    (&["pandas.core.indexes.base"], &["_new_Index", "Index"]),
    (&["pandas.core.indexes.datetimes"], &["_new_DatetimeIndex", "DatetimeIndex"]),
    (&["pandas.core.indexes.period"], &["_new_PeriodIndex", "PeriodIndex"]),
    (&["pandas.core.indexes.interval"], &["_new_IntervalIndex", "IntervalIndex"]),
    (&["pandas.core.indexes.range"], &["RangeIndex"]),
    (&["pandas.core.indexes.multi"], &["MultiIndex"]),
    (&["pandas.core.indexes.category"], &["CategoricalIndex"]),
    (&["pandas.core.indexes.timedeltas"], &["TimedeltaIndex"]),
    (&["pandas._libs.interval"], &["Interval"]),
    (&["pandas._libs.tslibs.timestamps"], &["_unpickle_timestamp"]),
    (&["pandas._libs.tslibs.timedeltas"], &["_timedelta_unpickle"]),
    (
        &["pandas._libs.tslibs.offsets"],
        &[
            "Day",
            "Hour",
            "Minute",
            "Second",
            "Milli",
            "Micro",
            "Nano",
            "MonthEnd",
            "MonthBegin",
            "QuarterEnd",
            "QuarterBegin",
            "YearEnd",
            "YearBegin",
            "Week",
            "BusinessDay",
        ],
    ),
    (&["scipy.sparse._csr", "scipy.sparse.csr", "scipy.sparse"], &["csr_matrix", "csr_array"]),
    (&["scipy.sparse._csc", "scipy.sparse.csc"], &["csc_matrix", "csc_array"]),
    (&["scipy.sparse._coo", "scipy.sparse.coo"], &["coo_matrix", "coo_array"]),
    (&["scipy.interpolate._bsplines"], &["BSpline"]),
    (&["scipy._lib.array_api_compat.numpy._aliases"], &["asarray"]),
];

/// Classes of scikit-learn, and functions of numbers to which its models refer.
const SKLEARN: &[&str] = &[
    "ARDRegression",
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "AdamOptimizer",
    "AdditiveChi2Sampler",
    "AffinityPropagation",
    "AgglomerativeClustering",
    "BaggingClassifier",
    "BaggingRegressor",
    "BallTree",
    "BallTree64",
    "BayesianGaussianMixture",
    "BayesianRidge",
    "BernoulliNB",
    "BernoulliRBM",
    "Binarizer",
    "Birch",
    "BisectingKMeans",
    "Bunch",
    "CCA",
    "CalibratedClassifierCV",
    "CategoricalNB",
    "ChebyshevDistance64",
    "ClassicalMDS",
    "ClassifierChain",
    "ColumnTransformer",
    "ComplementNB",
    "ConstantKernel",
    "CountVectorizer",
    "CyHalfBinomialLoss",
    "CyHalfGammaLoss",
    "CyHalfPoissonLoss",
    "CyHalfSquaredError",
    "CyHalfTweedieLossIdentity",
    "DBSCAN",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "DictVectorizer",
    "DictionaryLearning",
    "DotProduct",
    "DummyClassifier",
    "DummyRegressor",
    "ElasticNet",
    "ElasticNetCV",
    "EllipticEnvelope",
    "EmpiricalCovariance",
    "EuclideanDistance64",
    "Exponentiation",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "FactorAnalysis",
    "FastICA",
    "FeatureAgglomeration",
    "FeatureHasher",
    "FeatureUnion",
    "FunctionTransformer",
    "GammaRegressor",
    "GaussianMixture",
    "GaussianNB",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "GenericUnivariateSelect",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "GraphicalLasso",
    "GraphicalLassoCV",
    "GridSearchCV",
    "GroupKFold",
    "HDBSCAN",
    "HalfBinomialLoss",
    "HalfGammaLoss",
    "HalfPoissonLoss",
    "HalfSquaredError",
    "HalfTweedieLossIdentity",
    "HashingVectorizer",
    "Hinge",
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "HuberRegressor",
    "IdentityLink",
    "IncrementalPCA",
    "Interval",
    "IsolationForest",
    "Isomap",
    "IsotonicRegression",
    "IterativeImputer",
    "KBinsDiscretizer",
    "KDTree",
    "KDTree64",
    "KFold",
    "KMeans",
    "KNNImputer",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "KernelCenterer",
    "KernelDensity",
    "KernelPCA",
    "KernelRidge",
    "LabelBinarizer",
    "LabelEncoder",
    "LabelPropagation",
    "LabelSpreading",
    "Lars",
    "LarsCV",
    "Lasso",
    "LassoCV",
    "LassoLars",
    "LassoLarsCV",
    "LassoLarsIC",
    "LatentDirichletAllocation",
    "LedoitWolf",
    "LinearDiscriminantAnalysis",
    "LinearRegression",
    "LinearSVC",
    "LinearSVR",
    "LocalOutlierFactor",
    "LocallyLinearEmbedding",
    "LogLink",
    "LogisticRegression",
    "LogisticRegressionCV",
    "LogitLink",
    "MDS",
    "MLPClassifier",
    "MLPRegressor",
    "ManhattanDistance64",
    "Matern",
    "MaxAbsScaler",
    "MeanShift",
    "MinCovDet",
    "MinMaxScaler",
    "MiniBatchDictionaryLearning",
    "MiniBatchKMeans",
    "MiniBatchNMF",
    "MiniBatchSparsePCA",
    "MinkowskiDistance64",
    "MissingIndicator",
    "ModifiedHuber",
    "MultiLabelBinarizer",
    "MultiOutputClassifier",
    "MultiOutputRegressor",
    "MultiTaskElasticNet",
    "MultiTaskLasso",
    "MultinomialNB",
    "NMF",
    "NearestCentroid",
    "NearestNeighbors",
    "NeighborhoodComponentsAnalysis",
    "Normalizer",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OAS",
    "OPTICS",
    "OneClassSVM",
    "OneHotEncoder",
    "OneVsOneClassifier",
    "OneVsRestClassifier",
    "OrdinalEncoder",
    "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV",
    "OutputCodeClassifier",
    "PCA",
    "PLSCanonical",
    "PLSRegression",
    "PLSSVD",
    "PassiveAggressiveClassifier",
    "PassiveAggressiveRegressor",
    "PatchExtractor",
    "Perceptron",
    "Pipeline",
    "PoissonRegressor",
    "PolynomialCountSketch",
    "PolynomialFeatures",
    "PowerTransformer",
    "Product",
    "QuadraticDiscriminantAnalysis",
    "QuantileRegressor",
    "QuantileTransformer",
    "RANSACRegressor",
    "RBF",
    "RBFSampler",
    "RFE",
    "RFECV",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "RadiusNeighborsTransformer",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomTreesEmbedding",
    "RandomizedSearchCV",
    "RationalQuadratic",
    "RegressorChain",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "RobustScaler",
    "SGDClassifier",
    "SGDOneClassSVM",
    "SGDOptimizer",
    "SGDRegressor",
    "SVC",
    "SVR",
    "SelectFdr",
    "SelectFpr",
    "SelectFromModel",
    "SelectFwe",
    "SelectKBest",
    "SelectPercentile",
    "SelfTrainingClassifier",
    "SequentialFeatureSelector",
    "ShrunkCovariance",
    "ShuffleSplit",
    "SimpleImputer",
    "SkewedChi2Sampler",
    "SparsePCA",
    "SpectralBiclustering",
    "SpectralClustering",
    "SpectralCoclustering",
    "SpectralEmbedding",
    "SplineTransformer",
    "StackingClassifier",
    "StackingRegressor",
    "StandardScaler",
    "StratifiedKFold",
    "Sum",
    "TSNE",
    "TargetEncoder",
    "TfidfTransformer",
    "TfidfVectorizer",
    "TheilSenRegressor",
    "TimeSeriesSplit",
    "TransformedTargetRegressor",
    "Tree",
    "TreePredictor",
    "TruncatedSVD",
    "TweedieRegressor",
    "VarianceThreshold",
    "VotingClassifier",
    "VotingRegressor",
    "WhiteKernel",
    "_BinMapper",
    "_BinaryGaussianProcessClassifierLaplace",
    "_BisectingTree",
    "_CFNode",
    "_CFSubcluster",
    "_CalibratedClassifier",
    "_SigmoidCalibration",
];

/// Functions to which models of scikit-learn refer.
const FUNCTIONS: &[&str] = &["_kmeans_single_lloyd", "chi2", "f_classif", "f_regression"];

/// NumPy names that no module of scikit-learn has. Where joblib has an array of objects, `pickle.load` takes a string
/// of the model for their module.
const OF_NUMPY: &[&str] = &["_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"];
